#include "tests/bench/device_peaks.h"

#include <algorithm>

#include "base/clock.h"
#include "nmt/ops/adam.h"
#include "tests/bench/bench_tensors.h"

namespace babelring {

namespace {

/// Bytes a second of a sum of squares, which only reads.
double read_rate(Backend& backend, std::int64_t elements, double seconds) {
  BenchTensors tensors(backend);
  const SquaredNorm op{.x = tensors.uniform({elements}, DType::f32),
                       .sums = tensors.make({SquaredNorm::blocks(elements)}, DType::f32)};
  const auto call = [&] { backend.run(op); };
  ms_per_call(backend, call, 1);
  const double first = ms_per_call(backend, call, 1);
  const double calls = std::clamp(seconds * 1e3 / std::max(first, 1e-3), 1.0, 1e5);
  return cost_of(op).bytes / ms_per_call(backend, call, static_cast<int>(calls)) * 1e3;
}

}  // namespace

double ms_per_call(Backend& backend, const std::function<void()>& call, int calls) {
  backend.synchronize();
  const Stopwatch watch;
  for (int i = 0; i < calls; ++i) call();
  backend.synchronize();
  return watch.elapsed_ms() / calls;
}

MachinePeaks measure_device_peaks(Backend& backend, double seconds, const PeakOperands& operands) {
  MachinePeaks peaks{.bf16_instruction = "bf16 product", .f32_instruction = "f32 product"};
  const PeakRates f32 = measure_peak_rates(backend, DType::f32, 1, 2 * seconds, operands);
  peaks.f32_flops = f32.flops;
  peaks.triad_bytes = f32.bytes_per_second;
  peaks.bf16_flops = measure_peak_rates(backend, DType::bf16, 1, 2 * seconds, operands).flops;
  peaks.read_bytes = read_rate(backend, operands.elements, seconds);
  peaks.bf16_flops_one_thread = peaks.bf16_flops;
  peaks.f32_flops_one_thread = peaks.f32_flops;
  peaks.triad_bytes_one_thread = peaks.triad_bytes;
  peaks.read_bytes_one_thread = peaks.read_bytes;
  return peaks;
}

MachinePeaks measure_peaks(Backend& backend, int threads, double seconds) {
  return backend.host_memory() ? measure_machine_peaks(threads, seconds) : measure_device_peaks(backend, seconds);
}

}  // namespace babelring
