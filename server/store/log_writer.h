#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "server/store/log_blocks.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Adds lines to the runs' logs. New lines lie in a table as they are; a thousand of them, or 128 KiB, become one
/// compressed block. Where a run's blocks exceed its limit the oldest go, so that a log costs a bounded place for good.
/// Used on the writer's thread within its transaction.
class LogWriter {
 public:
  explicit LogWriter(Database& database) : database_(database) {}

  /// The number of the line: 1 is the run's first, without gaps. Throws SqlFailure.
  std::int64_t append(std::int64_t run, const LogLine& line);
  /// Packs what a migration or another limit left unpacked. Throws SqlFailure.
  void pack_all();
  /// Drops what is remembered between calls, after a rollback.
  void forget() { tails_.clear(); }

  static constexpr std::size_t most_lines = 1000, most_bytes = 128 << 10;  // unpacked
  static constexpr std::int64_t default_limit_bytes = std::int64_t{64} << 20;

 private:
  struct Tail {
    std::int64_t next = 1;
    std::size_t lines = 0, bytes = 0;  // not packed yet
  };
  Tail& tail(std::int64_t run);
  void pack(std::int64_t run);
  void store_block(std::int64_t run, std::int64_t first, const LogBlock& block);
  void drop_oldest(std::int64_t run);

  Database& database_;
  std::map<std::int64_t, Tail> tails_;
};

}  // namespace babelring::store
