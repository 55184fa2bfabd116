#pragma once

#include <functional>

#include "nmt/ops/backend.h"
#include "nmt/ops/cpu/peaks.h"
#include "tests/bench/peaks_output.h"

namespace babelring {

/// Larger than those by which a run measures its devices: a benchmark has the memory and the time.
inline constexpr PeakOperands bench_operands = {.matmul_edge = 8192, .elements = std::int64_t{256} << 20};

/// Peaks of a device with separate memory: measure_peak_rates() in bf16 and f32, its sum of arrays (12 bytes an
/// element) instead of the triad, and a sum of squares, which only reads. Each takes about `seconds`. Reports one
/// thread.
MachinePeaks measure_device_peaks(Backend& backend, double seconds = 0.1,
                                  const PeakOperands& operands = bench_operands);

/// Peaks of the backend's device; of the processor if the backend works in its memory.
MachinePeaks measure_peaks(Backend& backend, int threads, double seconds = 0.1);

/// Milliseconds of one of `calls` calls made one after another, without waiting for each.
double ms_per_call(Backend& backend, const std::function<void()>& call, int calls);

}  // namespace babelring
