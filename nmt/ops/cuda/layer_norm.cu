#include "nmt/ops/layer_norm.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

// A warp takes a row, a block so many. A lane reads again what it wrote itself.
constexpr int rows_at_once = 4;
constexpr int norm_threads = rows_at_once * warp_lanes;

/// What normalising a row reads and writes besides it.
struct NormOperands {
  const float *gain, *bias;
  float *mean, *rstd;
  float eps;
};

/// y of the row x, whose elements add up to `total` over the warp.
template <int n, class T>
__device__ void normalize_row(const T* x, T* y, int width, std::int64_t row, float total, const NormOperands& norm) {
  const float mean = warp_sum(total) / static_cast<float>(width);
  float squares = 0;
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const auto piece = piece_at<n>(x + i);
    for (const T value : piece.of) {
      const float apart = widen(value) - mean;
      squares += apart * apart;
    }
  }
  const float rstd = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(width) + norm.eps);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    auto piece = piece_at<n>(x + i);
    const auto gain = piece_at<n>(norm.gain + i), bias = piece_at<n>(norm.bias + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      piece.of[e] = narrow<T>((widen(piece.of[e]) - mean) * rstd * gain.of[e] + bias.of[e]);
    }
    put_piece(y + i, piece);
  }
  if (threadIdx.x % warp_lanes == 0) norm.mean[row] = mean, norm.rstd[row] = rstd;
}

template <int n, class T>
__global__ void layer_norm_kernel(const T* x, T* y, std::int64_t rows, int width, NormOperands norm) {
  const std::int64_t row = row_of_warp<rows_at_once>();
  if (row >= rows) return;
  float total = 0;
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const auto piece = piece_at<n>(x + row * width + i);
    for (const T value : piece.of) total += widen(value);
  }
  normalize_row<n>(x + row * width, y + row * width, width, row, total, norm);
}

template <int n, class T>
__global__ void residual_norm_kernel(const T* residual, const T* branch, T* sum, T* y, std::int64_t rows, int width,
                                     DropoutKey key, NormOperands norm) {
  const std::int64_t row = row_of_warp<rows_at_once>();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  float total = 0;
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const std::int64_t at = row * width + i;
    auto piece = piece_at<n>(residual + at);
    const auto added = piece_at<n>(branch + at);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      piece.of[e] = narrow<T>(widen(piece.of[e]) + mask.apply(widen(added.of[e]), i + e));
      total += widen(piece.of[e]);
    }
    put_piece(sum + at, piece);
  }
  normalize_row<n>(sum + row * width, y + row * width, width, row, total, norm);
}

template <class Op>
NormOperands norm_operands(const Op& op) {
  return {op.gain.template as<float>(), op.bias.template as<float>(), op.mean.template as<float>(),
          op.rstd.template as<float>(), op.eps};
}

}  // namespace

void run(const LayerNormForward& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0];
  if (op.x.shape.elements() == 0) return;
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({op.x.shape[1]}, {op.x.data, op.y.data, op.gain.data, op.bias.data}, [&](auto n) {
      launch(op.name, {row_blocks<rows_at_once>(rows), norm_threads, workspace.stream()}, layer_norm_kernel<n, T>,
             op.x.as<T>(), op.y.as<T>(), rows, static_cast<int>(op.x.shape[1]), norm_operands(op));
    });
  });
}

void run(const ResidualNormForward& op, Workspace& workspace) {
  const std::int64_t rows = op.y.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto places = {
        op.residual.data, op.branch.data, static_cast<const void*>(op.sum.data), static_cast<const void*>(op.y.data),
        op.gain.data,     op.bias.data};
    with_pieces<T>({op.y.shape[1]}, places, [&](auto n) {
      launch(op.name, {row_blocks<rows_at_once>(rows), norm_threads, workspace.stream()}, residual_norm_kernel<n, T>,
             op.residual.as<T>(), op.branch.as<T>(), op.sum.as<T>(), op.y.as<T>(), rows,
             static_cast<int>(op.y.shape[1]), op.key, norm_operands(op));
    });
  });
}

}  // namespace babelring::cuda
