#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Bucket size for all-reduces in host memory. Small, so that the ring reduces a bucket while backward computes the
/// next; messages cost CPUs little.
inline constexpr std::int64_t host_bucket_bytes = 4'000'000;
/// The least that a measured size may be: more messages would cost the CPUs.
inline constexpr std::int64_t min_measured_bucket_bytes = 128'000;

/// Cost model of an all-reduce: b bytes of f32 gradients take latency_s + b / bytes_per_s.
struct AllReduceModel {
  double latency_s = 0, bytes_per_s = 0;
};

/// Cost model of NCCL's ring over `ranks` GPUs on `hosts` hosts: 2 (n - 1) steps over Hopper NVLink within a host, or
/// 400 Gbit/s per GPU between hosts. The constants come from data sheets; they are not measured.
AllReduceModel nccl_model(int ranks, int hosts, GradientWire wire);

/// Cost model of this communicator's all-reduces in host memory, measured: the shortest of several sums of few and of 2
/// MB, averaged over the ranks. Collective; takes as long as three sums of 2 MB and some small ones. The same on all
/// ranks.
AllReduceModel measure_all_reduce(Communicator& communicator);

/// The bucket size that minimizes the time between the end of backward and the end of all-reduces. For S bytes of
/// gradients, latency L and bandwidth R, buckets of b bytes cost S / b latencies, and the last bucket's transfer b / R
/// starts only after backward. S L / b + b / R is minimal at b = sqrt(S L R). The result is limited to `gradient_bytes`
/// and then raised to `min_bytes` if smaller.
std::int64_t best_bucket_bytes(std::int64_t gradient_bytes, const AllReduceModel& model,
                               std::int64_t min_bytes = host_bucket_bytes);

/// Position of a parameter's gradient in the flat gradient, in elements.
struct ParameterRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Overlaps gradient all-reduces with backward. Buckets are contiguous ranges of the flat gradient, reduced in place.
/// They are cut from the end, because backward completes the last parameters first. They start strictly in this order,
/// independent of the order of mark_ready() calls, so that all ranks issue the same collectives; begin() may move one
/// parameter's bucket to the front.
/// Calls per update: begin(), mark_ready() once for each parameter, finish(). With gradient accumulation, only the last
/// micro-batch calls mark_ready(). Not thread-safe.
class GradientBuckets {
 public:
  /// `flat_gradient` is contiguous f32. `parameters`, in forward order, cover it without gaps. Parameters share a
  /// bucket up to `bucket_bytes`; a larger parameter gets its own bucket. The parameter with index `alone` never
  /// shares its bucket. Communicator and gradient memory must outlive the object. Throws Failure if a parameter range
  /// is not contiguous with the previous one.
  GradientBuckets(Communicator& communicator, Tensor flat_gradient, std::vector<ParameterRange> parameters,
                  std::int64_t bucket_bytes, std::optional<std::size_t> alone = {});

  /// Starts an update and clears all marks. With `alone_first`, the bucket of parameter `alone` starts before all
  /// others, for updates in which that gradient is complete first. All ranks must pass the same value. Throws Failure
  /// if the previous update was not finished.
  void begin(bool alone_first = false);
  /// Reports the parameter's gradient complete. Throws Failure if already marked in this update, or CommError.
  void mark_ready(std::size_t parameter);
  /// Waits until the whole gradient is summed over ranks. Throws Failure naming the first unmarked parameter, or
  /// CommError.
  void finish();

  /// Bucket sizes in starting order, from the end of the gradient.
  const std::vector<std::int64_t>& bucket_bytes() const { return bucket_bytes_; }

 private:
  struct Bucket {
    std::int64_t offset = 0, count = 0;  // elements
    std::size_t parameters = 0;
    std::size_t missing = 0;  // parameters not yet marked in this update
  };
  void check_parameters() const;
  void cut(std::int64_t wanted_bytes);
  void start_complete_buckets();

  Communicator& communicator_;
  Tensor gradient_;
  std::vector<ParameterRange> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<std::int64_t> bucket_bytes_;
  std::vector<std::size_t> bucket_of_;  // parameter -> bucket
  std::optional<std::size_t> alone_;    // parameter
  std::vector<std::size_t> order_;      // bucket indices in this update's starting order
  std::vector<bool> ready_;
  std::size_t started_ = 0;  // number of started buckets in order_
};

}  // namespace babelring
