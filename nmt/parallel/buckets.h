#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// Where a parameter's gradient lies in the flat gradient, in elements.
struct ParameterRange {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// Starts the all-reduce of a part of the gradient while backward still computes the rest. Buckets are contiguous
/// ranges of the flat gradient, reduced in place: no fusion copy. They are cut from the end, because backward completes
/// the last parameters first, and started strictly in that order, whatever the order of marks, so that all ranks issue
/// the same collectives; begin() may put one parameter's bucket first. Used by one thread. One update: begin(),
/// mark_ready() of every parameter once, finish().
/// With gradient accumulation only the last micro-batch marks.
class GradientBuckets {
 public:
  /// `flat_gradient`: f32, contiguous. `parameters`: in forward order, one after another without gaps, covering
  /// `flat_gradient`. Several parameters share a bucket until it has `bucket_bytes`; one larger than that has a bucket
  /// of its own size. The parameter `alone` gets a bucket to itself. The communicator and the memory outlive this
  /// object. Throws Failure naming the parameter that is out of place.
  GradientBuckets(Communicator& communicator, Tensor flat_gradient, std::vector<ParameterRange> parameters,
                  std::int64_t bucket_bytes, std::optional<std::size_t> alone = {});

  /// Forgets all marks. With `alone_first` the bucket of the parameter `alone` starts before all others, for an update
  /// in which it is complete first; the same on all ranks. Throws Failure if the last update was not finished.
  void begin(bool alone_first = false);
  /// The parameter's gradient is complete for this update. Throws Failure when marked twice; CommError.
  void mark_ready(std::size_t parameter);
  /// Waits until the whole gradient is summed over ranks. Throws Failure naming the first parameter that was not
  /// marked; CommError.
  void finish();

  /// The end of the gradient first.
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
  std::vector<std::size_t> order_;      // buckets, as this update starts them
  std::vector<bool> ready_;
  std::size_t started_ = 0;  // of order_
};

}  // namespace babelring
