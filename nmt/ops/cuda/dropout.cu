#include "nmt/ops/dropout.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"

namespace babelring::cuda {

namespace {

/// One block a row.
template <class T>
__global__ void dropout_kernel(const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride, int width,
                               DropoutKey key) {
  const std::int64_t row = blockIdx.x;
  const DeviceDropoutRow mask(key, row);
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    y[row * y_stride + i] = narrow<T>(mask.apply(widen(x[row * x_stride + i]), i));
  }
}

template <class T>
__global__ void residual_dropout_kernel(const T* residual, const T* branch, T* y, int width, DropoutKey key) {
  const std::int64_t row = blockIdx.x;
  const DeviceDropoutRow mask(key, row);
  for (int i = threadIdx.x; i < width; i += blockDim.x) {
    const std::int64_t at = row * width + i;
    y[at] = narrow<T>(widen(residual[at]) + mask.apply(widen(branch[at]), i));
  }
}

}  // namespace

void run(const Dropout& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0];
  if (op.x.shape.elements() == 0) return;
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {static_cast<unsigned>(rows), elementwise_threads, workspace.stream()}, dropout_kernel<T>,
           op.x.as<T>(), op.x.row_stride, op.y.as<T>(), op.y.row_stride, static_cast<int>(op.x.shape[1]), op.key);
  });
}

void run(const ResidualDropout& op, Workspace& workspace) {
  const std::int64_t rows = op.y.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {static_cast<unsigned>(rows), elementwise_threads, workspace.stream()}, residual_dropout_kernel<T>,
           op.residual.as<T>(), op.branch.as<T>(), op.y.as<T>(), static_cast<int>(op.y.shape[1]), op.key);
  });
}

}  // namespace babelring::cuda
