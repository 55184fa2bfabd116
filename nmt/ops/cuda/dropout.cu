#include "nmt/ops/dropout.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

constexpr int rows_at_once = 8;  // a warp takes a row, n columns a lane at a time
constexpr int dropout_threads = rows_at_once * warp_lanes;

template <int n, class T>
__global__ void dropout_kernel(const T* x, std::int64_t x_stride, T* y, std::int64_t y_stride, std::int64_t rows,
                               int width, DropoutKey key) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<rows_at_once>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const Elements<T, n> piece(x + row * x_stride + i);
    float values[n];
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] = piece[e];
    mask.apply(values, i);
    put_elements(y + row * y_stride + i, Elements<T, n>(values));
  }
}

template <int n, class T>
__global__ void residual_dropout_kernel(const T* residual, const T* branch, T* y, std::int64_t rows, int width,
                                        DropoutKey key) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<rows_at_once>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const std::int64_t at = row * width + i;
    const Elements<T, n> piece(residual + at), added(branch + at);
    float values[n];
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] = added[e];
    mask.apply(values, i);
#pragma unroll
    for (int e = 0; e < n; ++e) values[e] += piece[e];
    put_elements(y + at, Elements<T, n>(values));
  }
}

}  // namespace

void run(const Dropout& op, CudaContext& context) {
  const std::int64_t rows = op.x.shape[0];
  if (op.x.shape.elements() == 0) return;
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const int width = static_cast<int>(op.x.shape[1]);
    with_pieces<T>({width, op.x.row_stride, op.y.row_stride}, {op.x.data, op.y.data}, [&](auto n) {
      launch(op.name, {row_blocks<rows_at_once>(rows), dropout_threads, context.stream()}, dropout_kernel<n, T>,
             op.x.as<T>(), op.x.row_stride, op.y.as<T>(), op.y.row_stride, rows, width, op.key);
    });
  });
}

void run(const ResidualDropout& op, CudaContext& context) {
  const std::int64_t rows = op.y.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const int width = static_cast<int>(op.y.shape[1]);
    with_pieces<T>({width}, {op.residual.data, op.branch.data, op.y.data}, [&](auto n) {
      launch(op.name, {row_blocks<rows_at_once>(rows), dropout_threads, context.stream()},
             residual_dropout_kernel<n, T>, op.residual.as<T>(), op.branch.as<T>(), op.y.as<T>(), rows, width, op.key);
    });
  });
}

}  // namespace babelring::cuda
