#include "nmt/ops/elementwise.h"

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

void run(const Cast& op, CpuContext& context) {
  const std::int64_t count = op.x.shape.elements();
  with_float_type(op.x.dtype, [&](auto from) {
    with_float_type(op.y.dtype, [&](auto to) {
      const auto* x = op.x.as<decltype(from)>();
      auto* y = op.y.as<decltype(to)>();
#pragma omp parallel for simd schedule(static) num_threads(context.threads_for(count))
      for (std::int64_t i = 0; i < count; ++i) y[i] = rounded<decltype(to)>(load(x[i]));
    });
  });
}

void run(const Fill& op, CpuContext& context) {
  const std::int64_t count = op.y.shape.elements();
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    auto* y = op.y.as<T>();
    const T value = rounded<T>(op.value);
#pragma omp parallel for simd schedule(static) num_threads(context.threads_for(count))
    for (std::int64_t i = 0; i < count; ++i) y[i] = value;
  });
}

void run(const Add& op, CpuContext& context) {
  const std::int64_t count = op.x.shape.elements();
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto* x = op.x.as<T>();
    auto* y = op.y.as<T>();
#pragma omp parallel for simd schedule(static) num_threads(context.threads_for(count))
    for (std::int64_t i = 0; i < count; ++i) y[i] = rounded<T>(load(y[i]) + load(x[i]));
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
