#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "server/store/log_blocks.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Appends lines to the logs of runs. New lines are stored as they are; every thousand of them, or 128 KiB, are packed
/// into one compressed block. The oldest blocks of a run are deleted when they exceed its limit, so that the size of a
/// log is bounded. Used on the writer's thread, within its transaction.
class LogWriter {
 public:
  explicit LogWriter(Database& database) : database_(database) {}

  /// Returns the number of the line; numbers start at 1 for each run and have no gaps. Throws SqlFailure.
  std::int64_t append(std::int64_t run, const LogLine& line);
  /// Packs what a migration has left unpacked. Throws SqlFailure.
  void pack_all();
  /// Drops what is cached between calls, after a rollback.
  void forget() { tails_.clear(); }

  static constexpr std::size_t most_lines = 1000, most_bytes = 128 << 10;  // of unpacked lines of a run
  static constexpr std::int64_t default_limit_bytes = std::int64_t{64} << 20;

 private:
  struct Tail {
    std::int64_t next = 1;
    std::size_t lines = 0, bytes = 0;  // unpacked
  };
  Tail& tail(std::int64_t run);
  void pack(std::int64_t run);
  void store_block(std::int64_t run, std::int64_t first, const LogBlock& block);
  void drop_oldest(std::int64_t run);

  Database& database_;
  std::map<std::int64_t, Tail> tails_;
};

}  // namespace babelring::store
