#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace babelring::store {

/// A line of a run's log, as it lies in a block. The text lives as long as what it was read from.
struct LogLine {
  std::int64_t attempt = 0, rank = 0, time_ms = 0;
  std::string_view level, text;
};

/// The bit that stands for a level in a block's `levels`: debug, info, warn, error, any other.
int level_bit(std::string_view level);

/// Consecutive lines of one run, compressed by zstd. What is inside is only needed in whole: for each line four
/// little-endian numbers (i64 time_ms, i32 attempt, i32 rank, u32 text bytes), u8 level bytes, the level and the text.
class LogBlock {
 public:
  void add(const LogLine& line);
  std::size_t lines() const { return lines_; }
  std::size_t raw_bytes() const { return raw_.size(); }
  std::int64_t lowest_rank() const { return lowest_rank_; }
  std::int64_t highest_rank() const { return highest_rank_; }
  int levels() const { return levels_; }
  /// Throws Failure if there is no memory for it.
  std::string compressed() const;

 private:
  std::string raw_;
  std::size_t lines_ = 0;
  std::int64_t lowest_rank_ = 0, highest_rank_ = 0;
  int levels_ = 0;
};

/// Unpacks a block. Throws Failure if it is damaged. `raw_bytes` is what it must unpack to.
std::string unpack_block(std::string_view compressed, std::size_t raw_bytes);
/// Its lines in order; false from `visit` ends it. Throws Failure if they do not fill the text exactly.
void visit_lines(std::string_view raw, const std::function<bool(const LogLine&)>& visit);

}  // namespace babelring::store
