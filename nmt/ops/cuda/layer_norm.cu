#include "nmt/ops/layer_norm.h"

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"

namespace babelring::cuda {

namespace {

// A warp takes a row, a block so many. A lane goes through every 32nd column, and reads again what it wrote itself.
constexpr int rows_at_once = 4;
constexpr int norm_threads = rows_at_once * warp_lanes;

unsigned row_blocks(std::int64_t rows) {
  return static_cast<unsigned>((rows + rows_at_once - 1) / rows_at_once);
}

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
template <class T>
__device__ void normalize_row(const T* x, T* y, int width, std::int64_t row, float total, const NormOperands& norm) {
  const int lane = threadIdx.x % warp_lanes;
  const float mean = warp_sum(total) / static_cast<float>(width);
  float squares = 0;
  for (int i = lane; i < width; i += warp_lanes) {
    const float apart = widen(x[i]) - mean;
    squares += apart * apart;
  }
  const float rstd = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(width) + norm.eps);
  for (int i = lane; i < width; i += warp_lanes) {
    y[i] = narrow<T>((widen(x[i]) - mean) * rstd * norm.gain[i] + norm.bias[i]);
  }
  if (lane == 0) norm.mean[row] = mean, norm.rstd[row] = rstd;
}

template <class T>
__global__ void layer_norm_kernel(const T* x, T* y, std::int64_t rows, int width, NormOperands norm) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  float total = 0;
  for (int i = threadIdx.x % warp_lanes; i < width; i += warp_lanes) total += widen(x[row * width + i]);
  normalize_row(x + row * width, y + row * width, width, row, total, norm);
}

template <class T>
__global__ void residual_norm_kernel(const T* residual, const T* branch, T* sum, T* y, std::int64_t rows, int width,
                                     DropoutKey key, NormOperands norm) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const DeviceDropoutRow mask(key, row);
  float total = 0;
  for (int i = threadIdx.x % warp_lanes; i < width; i += warp_lanes) {
    const std::int64_t at = row * width + i;
    const T stored = narrow<T>(widen(residual[at]) + mask.apply(widen(branch[at]), i));
    sum[at] = stored;
    total += widen(stored);
  }
  normalize_row(sum + row * width, y + row * width, width, row, total, norm);
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

template <class T>
__global__ void norm_backward_kernel(NormBackwardOperands<T> of, std::int64_t rows, int width, DropoutKey key) {
  const std::int64_t row = row_of_warp();
  if (row >= rows) return;
  const int lane = threadIdx.x % warp_lanes;
  const float mean = of.mean[row], rstd = of.rstd[row];
  float sum = 0, projection = 0;
  for (int i = lane; i < width; i += warp_lanes) {
    const std::int64_t at = row * width + i;
    const float g = widen(of.dy[at]) * of.gain[i];
    sum += g;
    projection += g * ((widen(of.x[at]) - mean) * rstd);
  }
  const float mean_g = warp_sum(sum) / static_cast<float>(width);
  const float slope = warp_sum(projection) / static_cast<float>(width) * rstd;
  const DeviceDropoutRow mask(key, row);
  for (int i = lane; i < width; i += warp_lanes) {
    const std::int64_t at = row * width + i;
    const float g = widen(of.dy[at]) * of.gain[i];
    const float d = (g - mean_g - (widen(of.x[at]) - mean) * slope) * rstd;
    const T dx = narrow<T>(of.accumulate ? d + widen(of.dx[at]) : d);
    of.dx[at] = dx;
    if (of.dbranch != nullptr) of.dbranch[at] = narrow<T>(mask.apply(widen(dx), i));
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
    launch(op.name, {row_blocks(rows), norm_threads, workspace.stream()}, layer_norm_kernel<T>, op.x.as<T>(),
           op.y.as<T>(), rows, static_cast<int>(op.x.shape[1]), norm_operands(op));
  });
}

void run(const ResidualNormForward& op, Workspace& workspace) {
  const std::int64_t rows = op.y.shape[0];
  if (op.y.shape.elements() == 0) return;
  with_device_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {row_blocks(rows), norm_threads, workspace.stream()}, residual_norm_kernel<T>, op.residual.as<T>(),
           op.branch.as<T>(), op.sum.as<T>(), op.y.as<T>(), rows, static_cast<int>(op.y.shape[1]), op.key,
           norm_operands(op));
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
    launch(op.name, {row_blocks(rows), norm_threads, workspace.stream()}, norm_backward_kernel<T>, operands, rows,
           static_cast<int>(width), op.key);
  });
  launch_add_blocks(partial, blocks, 2 * width, op.dgain, true, workspace.stream());
  launch_add_blocks(partial + width, blocks, 2 * width, op.dbias, true, workspace.stream());
}

}  // namespace babelring::cuda
