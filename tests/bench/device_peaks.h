#pragma once

#include <functional>

#include "nmt/ops/backend.h"
#include "tests/bench/machine_peaks.h"

namespace babelring {

/// How large the operands are that a device's peaks are measured on.
struct DevicePeakSizes {
  std::int64_t matmul_edge = 8192;                  // of square matrices
  std::int64_t elements = std::int64_t{256} << 20;  // of f32 arrays
};

/// Of a backend with memory of its own, through its own ops: one large matmul in bf16 and one in f32; y += x, 12 bytes
/// an element, in the triad's place; a sum of squares, which reads only. Each takes about `seconds`. One "thread".
MachinePeaks measure_device_peaks(Backend& backend, double seconds = 0.1, const DevicePeakSizes& sizes = {});

/// The device's, or of the processor's memory the processor's.
MachinePeaks measure_peaks(Backend& backend, int threads, double seconds = 0.1);

/// Milliseconds of one of `calls` calls made one after another, without waiting for each.
double ms_per_call(Backend& backend, const std::function<void()>& call, int calls);

}  // namespace babelring
