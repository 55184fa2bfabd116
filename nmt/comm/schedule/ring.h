#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace babelring {

/// A rank's position in the ring. It sends to rank `right` and receives from rank `left`.
struct RingPosition {
  int position = 0, ranks = 1;
  int left = 0, right = 0;
  std::vector<int> order = {0};  // the ranks by position
};

/// Orders the ring so that the ranks of a host are adjacent. Each host then has one sender to another host and one
/// receiver, however ranks are numbered (mpirun --map-by node numbers them across hosts). Hosts are ordered by their
/// lowest rank, ranks within a host by rank. `hosts` holds each rank's host.
RingPosition ring_position(const std::vector<std::string>& hosts, int rank);

/// A rank's position among hosts that all have the same number of ranks.
struct HostPosition {
  std::vector<int> local_ranks;  // the ranks on this rank's host, ascending
  RingPosition between;          // ring of the ranks with this rank's index on their hosts; one rank on each host
};

/// Hosts are ordered by their lowest rank. Returns nullopt if hosts have different numbers of ranks.
std::optional<HostPosition> host_position(const std::vector<std::string>& hosts, int rank);

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
