#include "nmt/ops/layer_norm.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

// A warp takes a row, a block so many. A lane goes through every 32nd piece of n columns, and reads again what it wrote
// itself.
constexpr int rows_at_once = 4;
constexpr int norm_threads = rows_at_once * warp_lanes;

unsigned row_blocks(std::int64_t rows) {
  return static_cast<unsigned>((rows + rows_at_once - 1) / rows_at_once);
}

template <int n>
__device__ int first_column() {
  return static_cast<int>(threadIdx.x % warp_lanes) * n;
}
/// From one piece of a lane to its next.
template <int n>
constexpr int column_step = warp_lanes* n;

__device__ std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * rows_at_once + threadIdx.x / warp_lanes;
}

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
  const std::int64_t row = row_of_warp();
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
  const std::int64_t row = row_of_warp();
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

/// The parts of dgain and dbias of sum_block_rows rows: a thread a column, a block of rows each.
template <class T>
__global__ void norm_sums_kernel(const T* dy, const T* x, const float* mean, const float* rstd, std::int64_t rows,
                                 int width, float* partial) {
  const int column = blockIdx.y * blockDim.x + threadIdx.x;
  if (column >= width) return;
  const std::int64_t first = blockIdx.x * sum_block_rows;
  const std::int64_t end = first + sum_block_rows < rows ? first + sum_block_rows : rows;
  float dgain = 0, dbias = 0;
  for (std::int64_t row = first; row < end; ++row) {
    const float d = widen(dy[row * width + column]);
    dgain += d * ((widen(x[row * width + column]) - mean[row]) * rstd[row]);
    dbias += d;
  }
  float* sums = partial + static_cast<std::int64_t>(blockIdx.x) * 2 * width;
  sums[column] = dgain;
  sums[width + column] = dbias;
}

template <class T>
struct NormBackwardOperands {
  const T *dy, *x;
  const float *gain, *mean, *rstd;
  T *dx, *dbranch;
  bool accumulate;
};

template <int n, class T>
__global__ void norm_backward_kernel(NormBackwardOperands<T> of, std::int64_t rows, int width, DropoutKey key) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const float mean = of.mean[row], rstd = of.rstd[row];
  float sum = 0, projection = 0;
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const std::int64_t at = row * width + i;
    const auto dy = piece_at<n>(of.dy + at), x = piece_at<n>(of.x + at);
    const auto gain = piece_at<n>(of.gain + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float g = widen(dy.of[e]) * gain.of[e];
      sum += g;
      projection += g * ((widen(x.of[e]) - mean) * rstd);
    }
  }
  const float mean_g = warp_sum(sum) / static_cast<float>(width);
  const float slope = warp_sum(projection) / static_cast<float>(width) * rstd;
  const DeviceDropoutRow mask(key, row);
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const std::int64_t at = row * width + i;
    const auto dy = piece_at<n>(of.dy + at), x = piece_at<n>(of.x + at);
    const auto gain = piece_at<n>(of.gain + i);
    Piece<T, n> dx{}, dbranch;
    if (of.accumulate) dx = piece_at<n>(of.dx + at);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float g = widen(dy.of[e]) * gain.of[e];
      const float d = (g - mean_g - (widen(x.of[e]) - mean) * slope) * rstd;
      dx.of[e] = narrow<T>(of.accumulate ? d + widen(dx.of[e]) : d);
      dbranch.of[e] = narrow<T>(mask.apply(widen(dx.of[e]), i + e));
    }
    put_piece(of.dx + at, dx);
    if (of.dbranch != nullptr) put_piece(of.dbranch + at, dbranch);
  }
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
      launch(op.name, {row_blocks(rows), norm_threads, workspace.stream()}, layer_norm_kernel<n, T>, op.x.as<T>(),
             op.y.as<T>(), rows, static_cast<int>(op.x.shape[1]), norm_operands(op));
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
      launch(op.name, {row_blocks(rows), norm_threads, workspace.stream()}, residual_norm_kernel<n, T>,
             op.residual.as<T>(), op.branch.as<T>(), op.sum.as<T>(), op.y.as<T>(), rows,
             static_cast<int>(op.y.shape[1]), op.key, norm_operands(op));
    });
  });
}

void run(const LayerNormBackward& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1], blocks = sum_blocks(rows);
  if (op.x.shape.elements() == 0) return;
  const Arena::Scope scope(workspace.scratch());
  auto* partial = workspace.scratch().make(Shape{blocks, 2 * width}, DType::f32).as<float>();
  const dim3 sum_grid(static_cast<unsigned>(blocks), static_cast<unsigned>((width + norm_threads - 1) / norm_threads));
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    // First of all the sums: dx may be written where dy is.
    launch(op.name, {sum_grid, norm_threads, workspace.stream()}, norm_sums_kernel<T>, op.dy.as<T>(), op.x.as<T>(),
           op.mean.as<float>(), op.rstd.as<float>(), rows, static_cast<int>(width), partial);
    const NormBackwardOperands<T> operands{.dy = op.dy.as<T>(),
                                           .x = op.x.as<T>(),
                                           .gain = op.gain.as<float>(),
                                           .mean = op.mean.as<float>(),
                                           .rstd = op.rstd.as<float>(),
                                           .dx = op.dx.as<T>(),
                                           .dbranch = op.dbranch ? op.dbranch.as<T>() : nullptr,
                                           .accumulate = op.accumulate};
    with_pieces<T>({width}, {operands.dy, operands.x, operands.gain, operands.dx, operands.dbranch}, [&](auto n) {
      launch(op.name, {row_blocks(rows), norm_threads, workspace.stream()}, norm_backward_kernel<n, T>, operands, rows,
             static_cast<int>(width), op.key);
    });
  });
  launch_add_blocks(partial, blocks, 2 * width, op.dgain, true, workspace.stream());
  launch_add_blocks(partial + width, blocks, 2 * width, op.dbias, true, workspace.stream());
}

}  // namespace babelring::cuda
