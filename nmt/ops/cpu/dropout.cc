#include "nmt/ops/dropout.h"

#include "nmt/ops/cpu/dropout_mask.h"
#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

void run(const Dropout& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1];
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* x = op.x.as<T>() + row * width;
      T* y = op.y.as<T>() + row * width;
      for_dropout_runs(op.key, row, width, [&](std::int64_t first, std::int64_t count, const float* factors) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) y[first + i] = rounded<T>(load(x[first + i]) * factors[i]);
      });
    }
  });
}

void run(const ResidualDropout& op, Workspace& workspace) {
  const std::int64_t rows = op.y.shape[0], width = op.y.shape[1];
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* residual = op.residual.as<T>() + row * width;
      const T* branch = op.branch.as<T>() + row * width;
      T* y = op.y.as<T>() + row * width;
      for_dropout_runs(op.key, row, width, [&](std::int64_t first, std::int64_t count, const float* factors) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
          y[first + i] = rounded<T>(load(residual[first + i]) + load(branch[first + i]) * factors[i]);
        }
      });
    }
  });
}

void run(const ReluDropoutBackward& op, Workspace& workspace) {
  const std::int64_t count = op.y.shape.elements();
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto *dy = op.dy.as<T>(), *y = op.y.as<T>();
    auto* dx = op.dx.as<T>();
    const float scale = op.scale;
#pragma omp parallel for simd schedule(static) num_threads(workspace.threads_for(count))
    for (std::int64_t i = 0; i < count; ++i) dx[i] = rounded<T>(load(y[i]) > 0 ? load(dy[i]) * scale : 0.0f);
  });
}

}  // namespace babelring::cpu
