#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/parameters.h"
#include "nmt/parallel/host_shares.h"

namespace babelring {

/// Gathers the weights that passes read after each host has updated its share: compute copies, and masters that are
/// read as f32. They travel in buckets in the order of a forward pass, which can begin before all have arrived.
/// Collective: every rank makes the same calls. All functions may throw CommError.
class WeightsGather {
 public:
  /// The store must outlive the object.
  WeightsGather(const HostShares& shares, const ParameterStore& store);

  /// Sends what this rank has updated. Until a parameter has arrived, nobody may read it, and until finish() nobody may
  /// write weights.
  void start();
  /// True if this rank knows that the parameter has arrived. Does not wait or poll.
  bool has(const Parameter& parameter) const { return last_bucket(parameter) < arrived_; }
  /// Waits until the parameter has arrived on all ranks of this host.
  void wait_for(const Parameter& parameter);
  /// Waits for all weights.
  void finish();

 private:
  struct Bucket {
    PartsByPlace parts;
    std::int64_t all_gather = 0;  // number of the last one
  };
  std::size_t last_bucket(const Parameter& parameter) const;
  void wait_for_bucket(std::size_t bucket);

  HostShares shares_;
  const ParameterStore& store_;
  PartsByPlace read_as_f32_;  // masters of these, if others have copies
  std::vector<Bucket> buckets_;
  std::size_t arrived_;  // number of buckets
};

}  // namespace babelring
