#include "nmt/ops/peak_rates.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"
#include "nmt/core/random.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cpu/peaks.h"

namespace babelring {
namespace {

/// Allocates a tensor and fills it with numbers in [-1, 1): zeros would be multiplied faster.
template <class Element>
Tensor filled(Backend& backend, Buffer& buffer, const Shape& shape) {
  std::vector<Element> values(static_cast<std::size_t>(shape.elements()));
  Random random(1);
  const std::size_t drawn = std::min<std::size_t>(values.size(), std::size_t{1} << 16);
  for (std::size_t i = 0; i < drawn; ++i)
    values[i] = static_cast<Element>(static_cast<float>(2 * random.uniform() - 1));
  for (std::size_t i = drawn; i < values.size(); ++i) values[i] = values[i - drawn];
  buffer = backend.allocate(values.size() * sizeof(Element));
  const Tensor tensor = buffer.view(shape, dtype_of<Element>);
  backend.upload(values.data(), tensor);
  return tensor;
}

/// `units` of one call of the op, a second.
template <class Op>
double op_rate(Backend& backend, const Op& op, double units, double seconds) {
  const auto ms_of_calls = [&](int calls) {
    const Stopwatch watch;
    for (int i = 0; i < calls; ++i) backend.run(op);
    backend.synchronize();
    return watch.elapsed_ms();
  };
  ms_of_calls(1);
  const double once = std::max(ms_of_calls(1), 1e-3);
  const int calls = static_cast<int>(std::clamp(seconds * 1e3 / once, 1.0, 1e5));
  return units * calls / std::max(ms_of_calls(calls), 1e-6) * 1e3;
}

PeakRates measure_device_rates(Backend& backend, DType type, double seconds, const PeakOperands& operands) {
  Buffer x, y;
  const Shape square{operands.matmul_edge, operands.matmul_edge};
  const Tensor operand = type == DType::bf16 ? filled<BFloat16>(backend, x, square) : filled<float>(backend, x, square);
  y = backend.allocate(static_cast<std::size_t>(square.elements()) * size_of(type));
  const LinearForward product{.x = operand, .weight = operand, .y = y.view(square, type)};
  PeakRates rates{.flops = op_rate(backend, product, product.flops(), seconds / 2)};
  const Tensor from = filled<float>(backend, x, {operands.elements});
  const Tensor to = filled<float>(backend, y, {operands.elements});
  const Add add{.x = from, .y = to};
  rates.bytes_per_second = op_rate(backend, add, cost_of(add).bytes, seconds / 2);
  return rates;
}

}  // namespace

PeakRates measure_peak_rates(Backend& backend, DType type, int threads, double seconds, const PeakOperands& operands) {
  return backend.host_memory() ? measure_processor_rates(type, threads, seconds)
                               : measure_device_rates(backend, type, seconds, operands);
}

}  // namespace babelring
