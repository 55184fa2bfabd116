#include "tests/bench/device_peaks.h"

#include <algorithm>

#include "base/clock.h"
#include "tests/bench/bench_tensors.h"

namespace babelring {

namespace {

/// Units a second, where each call of an op does `units` of them.
template <class Op>
double op_rate(Backend& backend, const Op& op, double units, double seconds) {
  const auto call = [&] { backend.run(op); };
  ms_per_call(backend, call, 1);
  const double first = ms_per_call(backend, call, 1);
  const double calls = std::clamp(seconds * 1e3 / std::max(first, 1e-3), 1.0, 1e5);
  return units / ms_per_call(backend, call, static_cast<int>(calls)) * 1e3;
}

double matmul_rate(Backend& backend, DType type, std::int64_t edge, double seconds) {
  BenchTensors tensors(backend);
  const LinearForward op{.x = tensors.uniform({edge, edge}, type),
                         .weight = tensors.uniform({edge, edge}, type),
                         .y = tensors.make({edge, edge}, type)};
  return op_rate(backend, op, op.flops(), seconds);
}

double add_rate(Backend& backend, std::int64_t elements, double seconds) {
  BenchTensors tensors(backend);
  const Add op{.x = tensors.uniform({elements}, DType::f32), .y = tensors.uniform({elements}, DType::f32)};
  return op_rate(backend, op, cost_of(op).bytes, seconds);
}

double read_rate(Backend& backend, std::int64_t elements, double seconds) {
  BenchTensors tensors(backend);
  const SquaredNorm op{.x = tensors.uniform({elements}, DType::f32),
                       .sums = tensors.make({SquaredNorm::blocks(elements)}, DType::f32)};
  return op_rate(backend, op, cost_of(op).bytes, seconds);
}

}  // namespace

double ms_per_call(Backend& backend, const std::function<void()>& call, int calls) {
  backend.synchronize();
  const Stopwatch watch;
  for (int i = 0; i < calls; ++i) call();
  backend.synchronize();
  return watch.elapsed_ms() / calls;
}

MachinePeaks measure_device_peaks(Backend& backend, double seconds, const DevicePeakSizes& sizes) {
  MachinePeaks peaks{.bf16_instruction = "bf16 product", .f32_instruction = "f32 product"};
  peaks.bf16_flops = matmul_rate(backend, DType::bf16, sizes.matmul_edge, seconds);
  peaks.f32_flops = matmul_rate(backend, DType::f32, sizes.matmul_edge, seconds);
  peaks.triad_bytes = add_rate(backend, sizes.elements, seconds);
  peaks.read_bytes = read_rate(backend, sizes.elements, seconds);
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
