#include "nmt/ops/elementwise.h"
#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

void run(const Dropout& op, CpuContext& context) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1];
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* x = op.x.as<T>() + row * op.x.row_stride;
      T* y = op.y.as<T>() + row * op.y.row_stride;
      const DropoutRow dropout(op.key, row);
      const Vec16f scale = broadcast(dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        store_lanes(y + i, select(keep, load_lanes(x + i, mask) * scale), mask);
      });
    }
  });
}

void run(const ResidualDropout& op, CpuContext& context) {
  const std::int64_t rows = op.y.shape[0], width = op.y.shape[1];
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* residual = op.residual.as<T>() + row * width;
      const T* branch = op.branch.as<T>() + row * width;
      T* y = op.y.as<T>() + row * width;
      const DropoutRow dropout(op.key, row);
      const Vec16f scale = broadcast(dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        const Vec16f added = select(keep, load_lanes(branch + i, mask));
        store_lanes(y + i, multiply_add(added, scale, load_lanes(residual + i, mask)), mask);
      });
    }
  });
}

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
