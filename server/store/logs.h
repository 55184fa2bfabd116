#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/store/readers.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// A line of a run's log. Its strings point into the source buffer.
struct LogLine {
  std::int64_t attempt = 0, rank = 0, time_ms = 0;
  std::string_view level, text;
};

/// The bit of a level in LogBlock::levels(): one each for debug, info, warn, error and other levels.
int level_bit(std::string_view level);

/// Builds a block of consecutive log lines of one run, compressed with zstd as a whole. Format of each line, little
/// endian: i64 time_ms, i32 attempt, i32 rank, u32 text length, u8 level length, level, text. Lengths are in bytes.
class LogBlock {
 public:
  void add(const LogLine& line);
  std::size_t lines() const { return lines_; }
  std::size_t raw_bytes() const { return raw_.size(); }
  std::int64_t lowest_rank() const { return lowest_rank_; }
  std::int64_t highest_rank() const { return highest_rank_; }
  int levels() const { return levels_; }
  /// The compressed block. Throws Failure if zstd fails.
  std::string compressed() const;

 private:
  std::string raw_;
  std::size_t lines_ = 0;
  std::int64_t lowest_rank_ = 0, highest_rank_ = 0;
  int levels_ = 0;
};

/// Decompresses a block of `raw_bytes` uncompressed bytes. Throws Failure if it is damaged.
std::string unpack_block(std::string_view compressed, std::size_t raw_bytes);
/// Calls `visit` for each line of a decompressed block in order, until it returns false. Throws Failure if the block is
/// malformed.
void visit_lines(std::string_view raw, const std::function<bool(const LogLine&)>& visit);

/// Appends lines to the logs of runs. New lines are stored uncompressed; every 1,000 lines or 128 KiB are packed into a
/// compressed block. When a run's blocks exceed its size limit, the oldest are deleted. Call it only on the writer's
/// thread, inside its transaction.
class LogWriter {
 public:
  explicit LogWriter(Database& database) : database_(database) {}

  /// Returns the line number. Numbers start at 1 for each run and have no gaps. Throws SqlFailure.
  std::int64_t append(std::int64_t run, const LogLine& line);
  /// Packs the lines that a migration left uncompressed. Throws SqlFailure.
  void pack_all();
  /// Clears the cache. Call this after a rollback.
  void forget() { tails_.clear(); }

  static constexpr std::size_t max_lines = 1000, max_bytes = 128 << 10;  // unpacked, per run
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

struct LogRow {
  std::int64_t line = 0, attempt = 0, rank = 0, time_ms = 0;
  std::string level, text;
};

/// Selects lines of a log: the first after number `after`, or the last ones with `tail`.
struct LogFilter {
  std::optional<std::int64_t> rank, attempt;
  std::string level, text;
  std::int64_t after = 0, limit = 200;
  std::size_t max_bytes = 768 << 10;  // of text
  bool tail = false;
};

/// A page of a run's log.
struct LogPage {
  std::vector<LogRow> lines;  // oldest first
  std::int64_t next = 0;      // pass it as `after` for the next page; all lines up to it were searched
};

/// Returns the first matching lines after `after`, or the last ones with `tail`. A page has at most `limit` lines and
/// about `max_bytes` of text. One call searches at most 64 MiB, so a page can be empty although more lines match:
/// continue from `next`. Throws SqlFailure, or Failure for a damaged block.
LogPage read_logs(Reader& reader, std::int64_t run, const LogFilter& filter);

/// The newest error line among the unpacked lines of the run's log; empty: none. Throws SqlFailure.
std::string last_error(Reader& reader, std::int64_t run);

}  // namespace babelring::store
