#include "nmt/ops/layer_norm.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

// Each warp takes a row, a block rows_at_once rows. A lane reads its own values again, unless registers hold its
// pieces.
constexpr int rows_at_once = 4;
constexpr int norm_threads = rows_at_once * warp_lanes;

/// Parameters and saved statistics of a norm.
struct NormOperands {
  const float *gain, *bias;
  float *mean, *rstd;
  float eps;
};

/// y of a row whose elements add up to `total` over the warp.
template <int n, int pieces, class T>
__device__ void normalize_row(const LaneRow<T, n, pieces>& x, T* y, int width, std::int64_t row, float total,
                              const NormOperands& norm) {
  const float mean = warp_sum(total) / static_cast<float>(width);
  float squares = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = x.piece(k, i);
#pragma unroll
    for (int e = 0; e < n; ++e) squares += (values[e] - mean) * (values[e] - mean);
  });
  const float rstd = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(width) + norm.eps);
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = x.piece(k, i);
    const auto gain = piece_at<n>(norm.gain + i), bias = piece_at<n>(norm.bias + i);
    float normal[n];
#pragma unroll
    for (int e = 0; e < n; ++e) normal[e] = (values[e] - mean) * rstd * gain.of[e] + bias.of[e];
    put_elements(y + i, Elements<T, n>(normal));
  });
  if (threadIdx.x % warp_lanes == 0) norm.mean[row] = mean, norm.rstd[row] = rstd;
}

template <int n, int pieces, class T>
__global__ void layer_norm_kernel(const T* x, T* y, std::int64_t rows, int width, NormOperands norm) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<rows_at_once>();
  if (row >= rows) return;
  if constexpr (pieces > 0) width = pieces * column_step<n>;
  const LaneRow<T, n, pieces> own(x + row * width);
  float total = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = own.piece(k, i);
#pragma unroll
    for (int e = 0; e < n; ++e) total += values[e];
  });
  normalize_row(own, y + row * width, width, row, total, norm);
}

template <int n, int pieces, class T>
__global__ void residual_norm_kernel(const T* residual, const T* branch, T* sum, T* y, std::int64_t rows, int width,
                                     DropoutKey key, NormOperands norm) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<rows_at_once>();
  if (row >= rows) return;
  if constexpr (pieces > 0) width = pieces * column_step<n>;
  LaneRow<T, n, pieces> own(residual + row * width);
  const LaneRow<T, n, pieces> added(branch + row * width);
  const DeviceDropoutRow mask(key, row);
  float total = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = own.piece(k, i), branch_values = added.piece(k, i);
    float sums[n];
#pragma unroll
    for (int e = 0; e < n; ++e) sums[e] = branch_values[e];
    mask.apply(sums, i);
#pragma unroll
    for (int e = 0; e < n; ++e) sums[e] += values[e];
    const Elements<T, n> stored(sums);
#pragma unroll
    for (int e = 0; e < n; ++e) total += stored[e];
    put_elements(sum + row * width + i, stored);
    own.keep(k, stored);
  });
  own.moved_to(sum + row * width);
  normalize_row(own, y + row * width, width, row, total, norm);
}

template <class Op>
NormOperands norm_operands(const Op& op) {
  return {op.gain.template as<float>(), op.bias.template as<float>(), op.mean.template as<float>(),
          op.rstd.template as<float>(), op.eps};
}

}  // namespace

void run(const LayerNormForward& op, CudaContext& context) {
  const std::int64_t rows = op.x.shape[0];
  if (op.x.shape.elements() == 0) return;
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_row_pieces<T>(op.x.shape[1], {op.x.data, op.y.data, op.gain.data, op.bias.data}, [&](auto n, auto pieces) {
      launch(op.name, {row_blocks<rows_at_once>(rows), norm_threads, context.stream()}, layer_norm_kernel<n, pieces, T>,
             op.x.as<T>(), op.y.as<T>(), rows, static_cast<int>(op.x.shape[1]), norm_operands(op));
    });
  });
}

void run(const ResidualNormForward& op, CudaContext& context) {
  const std::int64_t rows = op.y.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto places = {
        op.residual.data, op.branch.data, static_cast<const void*>(op.sum.data), static_cast<const void*>(op.y.data),
        op.gain.data,     op.bias.data};
    with_row_pieces<T>(op.y.shape[1], places, [&](auto n, auto pieces) {
      launch(op.name, {row_blocks<rows_at_once>(rows), norm_threads, context.stream()},
             residual_norm_kernel<n, pieces, T>, op.residual.as<T>(), op.branch.as<T>(), op.sum.as<T>(), op.y.as<T>(),
             rows, static_cast<int>(op.y.shape[1]), op.key, norm_operands(op));
    });
  });
}

}  // namespace babelring::cuda
