#pragma once

#include <string>
#include <utility>
#include <vector>

#include "nmt/comm/communicator.h"

namespace babelring {

/// A communicator of ranks, two unless told otherwise, of which the others are simulated: a sum doubles the values.
/// Records started all-reduces.
class FakeCommunicator : public Communicator {
 public:
  /// Recorded offsets are relative to `base`.
  explicit FakeCommunicator(const float* base, int rank = 0, std::vector<std::string> hosts = {"here", "here"})
      : Communicator(rank, std::move(hosts)), base_(base) {}

  struct Range {
    std::int64_t offset, count;
    bool operator==(const Range&) const = default;
  };
  std::vector<Range> started;
  int finishes = 0;
  bool lost = false;

  Buffer allocate(std::size_t bytes) override { return allocate_host(bytes); }
  void all_reduce_start(Tensor tensor) override {
    started.push_back({tensor.as<float>() - base_, tensor.shape.elements()});
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) tensor.as<float>()[i] *= 2;
  }
  void all_reduce_finish() override {
    if (lost) throw CommError("rank 1 is lost");
    ++finishes;
  }
  void forget_errors() override {}
  void sum(std::vector<double>& values) override {
    for (double& value : values) value *= 2;
  }
  std::vector<std::string> all_gather(const std::string& text) override {
    return std::vector<std::string>(hosts().size(), text);
  }
  void or_bits(std::vector<std::uint64_t>&) override {}
  void broadcast(void*, std::size_t, int) override {}
  void broadcast_to_hosts(void*, std::size_t) override {}
  void barrier() override {}
  void fail_fast(std::chrono::milliseconds) override {}
  CommTotals totals() const override { return {}; }
  std::string description() const override { return "fake"; }

 private:
  const float* base_;
};

}  // namespace babelring
