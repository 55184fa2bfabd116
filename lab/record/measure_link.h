#pragma once

#include "insight/predict/gradient_sum.h"
#include "nmt/comm/communicator.h"

namespace babelring {

/// Rate and latency of a link between two ranks in both directions at once, as gradient sums use it.
struct MeasuredLink {
  insight::Link link;   // medians; rate_error: half of the range over the median
  double small_ms = 0;  // an all-reduce of 4 KB
  double large_ms = 0;  // an all-reduce of large_mb
  double large_mb = 0;
};

/// Measures the link between the two ranks of a communicator whose all-reduce is a ring, by round trips and `repeats`
/// (at least 1) all-reduces of `large_mb` MB of f32. `wire` is what the communicator sends; rate and processor time are
/// those of the bytes sent, so with bf16 converting is part of them. The processor time is that of the communication
/// while this thread computes, the larger one of both ranks. Collective; both ranks get the same result. Throws
/// UsageFailure unless there are two ranks, CommError.
MeasuredLink measure_link(Communicator& communicator, double large_mb, int repeats, GradientWire wire);

}  // namespace babelring
