#pragma once

#include <algorithm>
#include <cstdint>

namespace babelring {

/// Partition of `count` floats into one chunk per rank, each sent in segments of `segment` floats. Chunks are equal, or
/// of `stripe` floats each, fewer or none at the end; then there are at most `ranks` stripes.
struct RingLayout {
  float* data = nullptr;
  std::int64_t count = 0;
  int ranks = 1;
  std::int64_t segment = 1;  // in floats
  std::int64_t stripe = 0;   // 0: equal chunks, whose sums all ranks get; else each rank gets the sums of one stripe

  bool scatters() const { return stripe > 0; }
  /// The number of steps. Each moves one chunk.
  int steps() const { return (scatters() ? 1 : 2) * (ranks - 1); }
  std::int64_t chunk_begin(int chunk) const {
    return scatters() ? std::min(count, stripe * chunk) : count * chunk / ranks;
  }
  std::int64_t chunk_count(int chunk) const { return chunk_begin(chunk + 1) - chunk_begin(chunk); }
};

/// Iterates over a rank's messages in the order that sender and receiver agree on: RingLayout::steps(), segment by
/// segment. Step s transfers chunk (first_chunk - s) mod ranks. Empty chunks have no messages.
class RingCursor {
 public:
  RingCursor(const RingLayout& layout, int first_chunk) : layout_(layout), first_chunk_(first_chunk) { skip_empty(); }

  bool at_end() const { return step_ == layout_.steps(); }
  /// True in the first half of the steps (reduce-scatter, partial sums), false in the second (all-gather, final sums).
  bool reducing() const { return step_ < layout_.ranks - 1; }
  int step() const { return step_; }
  float* data() const { return layout_.data + layout_.chunk_begin(chunk()) + offset_; }
  int count() const;
  void next();

 private:
  int chunk() const { return (first_chunk_ - step_ + 2 * layout_.ranks) % layout_.ranks; }
  void skip_empty();
  RingLayout layout_;
  int first_chunk_;
  int step_ = 0;
  std::int64_t offset_ = 0;  // within the chunk, in floats
};

}  // namespace babelring
