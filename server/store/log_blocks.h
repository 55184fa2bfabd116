#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

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

}  // namespace babelring::store
