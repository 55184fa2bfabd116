#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace babelring::store {

/// A line of a run's log. Its texts point into what it was read from.
struct LogLine {
  std::int64_t attempt = 0, rank = 0, time_ms = 0;
  std::string_view level, text;
};

/// The bit of a level in a block's `levels`: debug, info, warn, error, any other.
int level_bit(std::string_view level);

/// Consecutive lines of one run, compressed as a whole by zstd. For each line: four little-endian numbers (i64 time_ms,
/// i32 attempt, i32 rank, u32 bytes of the text), u8 bytes of the level, the level and the text.
class LogBlock {
 public:
  void add(const LogLine& line);
  std::size_t lines() const { return lines_; }
  std::size_t raw_bytes() const { return raw_.size(); }
  std::int64_t lowest_rank() const { return lowest_rank_; }
  std::int64_t highest_rank() const { return highest_rank_; }
  int levels() const { return levels_; }
  /// Throws Failure if zstd fails.
  std::string compressed() const;

 private:
  std::string raw_;
  std::size_t lines_ = 0;
  std::int64_t lowest_rank_ = 0, highest_rank_ = 0;
  int levels_ = 0;
};

/// Decompresses a block to `raw_bytes`. Throws Failure if it is damaged.
std::string unpack_block(std::string_view compressed, std::size_t raw_bytes);
/// Visits the lines of a decompressed block in order until `visit` returns false. Throws Failure if they do not fill it
/// exactly.
void visit_lines(std::string_view raw, const std::function<bool(const LogLine&)>& visit);

}  // namespace babelring::store
