#include "nmt/ops/dropout.h"

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

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
