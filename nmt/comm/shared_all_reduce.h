#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nmt/comm/bell.h"
#include "nmt/comm/collective.h"
#include "nmt/comm/shared_memory.h"

namespace babelring {

/// What the ranks of one machine tell each other about their all-reduces, in memory they share.
class SharedBoard {
 public:
  /// One rank's lines; written by it alone, but for the bell. Zeroed memory is a Place.
  struct Place {
    alignas(64) std::atomic<std::int64_t> published;  // all-reduces whose values are complete
    std::atomic<std::int64_t> summed;                 // those of which this rank has done its share
    alignas(64) Bell bell;                            // rung when another rank's place has changed
  };

  static std::size_t file_bytes(int ranks) { return sizeof(Place) * static_cast<std::size_t>(ranks); }
  SharedBoard(std::shared_ptr<SharedFile> file, int rank, int ranks)
      : file_(std::move(file)), rank_(rank), ranks_(ranks) {}

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  Place& place(int rank) const { return reinterpret_cast<Place*>(file_->data())[rank]; }
  Place& own() const { return place(rank_); }
  void ring_peers() const;

 private:
  std::shared_ptr<SharedFile> file_;
  int rank_, ranks_;
};

/// All-reduce of ranks that see each other's memory. When all have published their values, each sums one share of the
/// elements, in the order of ranks, and writes the sum to all: every element is read and written once per rank, and no
/// message is sent. Bit-equal everywhere.
class SharedAllReduce final : public Collective {
 public:
  /// `data` lies in `memory`. `number`: how many were started on `board` before.
  SharedAllReduce(std::shared_ptr<const SharedBoard> board, const SharedMemory& memory, float* data, std::int64_t count,
                  std::int64_t number);

  void begin() override;
  Progress advance() override;
  std::string name() const override;
  std::int64_t bytes() const override { return count_ * std::int64_t{sizeof(float)}; }
  int waiting_for() const override;
  bool rings() const override { return true; }

 private:
  /// The first rank whose counter says that it is not so far.
  int missing(std::atomic<std::int64_t> SharedBoard::Place::*counter) const;

  std::shared_ptr<const SharedBoard> board_;
  std::vector<float*> parts_;  // by rank
  std::int64_t count_, number_, next_, end_;
  bool summed_ = false;
};

}  // namespace babelring
