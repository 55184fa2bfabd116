#pragma once

#include <functional>

#include "nmt/ops/backend.h"
#include "tests/bench/peaks_output.h"

namespace babelring {

/// How large the operands are that a device's peaks are measured on.
struct DevicePeakSizes {
  std::int64_t matmul_edge = 8192;                  // of square matrices
  std::int64_t elements = std::int64_t{256} << 20;  // of f32 arrays
};

/// Peaks of a device with separate memory, measured through the backend's ops: a large matmul in bf16, one in f32,
/// y += x (12 bytes an element) instead of the triad, and a sum of squares, which only reads. Each takes about
/// `seconds`. Reports one thread.
MachinePeaks measure_device_peaks(Backend& backend, double seconds = 0.1, const DevicePeakSizes& sizes = {});

/// Peaks of the backend's device; of the processor if the backend works in its memory.
MachinePeaks measure_peaks(Backend& backend, int threads, double seconds = 0.1);

/// Milliseconds of one of `calls` calls made one after another, without waiting for each.
double ms_per_call(Backend& backend, const std::function<void()>& call, int calls);

}  // namespace babelring
