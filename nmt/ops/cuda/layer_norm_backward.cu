#include <type_traits>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"
#include "nmt/ops/layer_norm.h"

/// All gradients in one pass over dy and x: a warp takes a row, keeps its part of the sums over rows while it goes on
/// to the next one, and the block adds its warps' parts.
namespace babelring::cuda {

namespace {

template <class T>
struct NormBackwardOperands {
  const T *dy, *x;
  const float *gain, *mean, *rstd;
  T *dx, *dbranch;
  bool accumulate;
};

/// How rows are shared out.
struct RowShares {
  std::int64_t blocks = 0, block_rows = 1;
  int warps = 1;       // of a block: each takes every warps-th row of it
  bool shared = true;  // sums lie in shared memory while rows are added; else, a warp a block, where they end
};

constexpr std::int64_t wanted_blocks = 400;           // about three for each processor of an H200
constexpr std::int64_t most_shared_floats = 1 << 14;  // 64 KiB: three such blocks fit on one of them
constexpr int most_warps = 8;

/// Extents of a row's sums in shared memory, where they lie by pieces.
template <int n>
__host__ __device__ constexpr int sum_room(int width) {
  return (width + column_step<n> - 1) / column_step<n> * column_step<n>;
}
/// Where the element e of a lane's piece at column i lies there: lane by lane, so that each has a bank of its own.
template <int n>
__device__ int sum_place(int i, int e) {
  return i - first_column<n>() + e * warp_lanes + static_cast<int>(threadIdx.x % warp_lanes);
}
/// The same for any column.
template <int n>
__device__ int place_of_column(int column) {
  const int within = column % column_step<n>;
  return column - within + within % n * warp_lanes + within / n;
}

/// dx and dbranch of a row.
template <int n, class T>
__device__ void write_gradients(const NormBackwardOperands<T>& of, std::int64_t row, int width, float mean_g,
                                float slope, const DropoutKey& key) {
  const float mean = of.mean[row], rstd = of.rstd[row];
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

/// A row's gradients; its parts of dgain and dbias are added to the warp's.
template <int n, class T>
__device__ void take_row(const NormBackwardOperands<T>& of, std::int64_t row, int width, const DropoutKey& key,
                         float* dgain, float* dbias) {
  const float mean = of.mean[row], rstd = of.rstd[row];
  float sum = 0, projection = 0;
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    const std::int64_t at = row * width + i;
    const auto dy = piece_at<n>(of.dy + at), x = piece_at<n>(of.x + at);
    const auto gain = piece_at<n>(of.gain + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float d = widen(dy.of[e]), normal = (widen(x.of[e]) - mean) * rstd, g = d * gain.of[e];
      sum += g;
      projection += g * normal;
      const int place = sum_place<n>(i, e);
      dgain[place] += d * normal;
      dbias[place] += d;
    }
  }
  const float mean_g = warp_sum(sum) / static_cast<float>(width);
  const float slope = warp_sum(projection) / static_cast<float>(width) * rstd;
  write_gradients<n>(of, row, width, mean_g, slope, key);
}

/// Its blocks' parts of dgain and dbias go to partial [blocks, 2, width].
template <int n, bool shared, class T>
__global__ void norm_backward_kernel(NormBackwardOperands<T> of, std::int64_t rows, int width, DropoutKey key,
                                     std::int64_t block_rows, float* partial) {
  partial += blockIdx.x * 2 * static_cast<std::int64_t>(width);
  const int warp = static_cast<int>(threadIdx.x / warp_lanes), warps = static_cast<int>(blockDim.x / warp_lanes);
  const int room = shared ? sum_room<n>(width) : width;
  float* sums = partial;
  if constexpr (shared) sums = dynamic_shared<float>();
  float *dgain = sums + 2 * room * warp, *dbias = dgain + room;
  for (int i = first_column<n>(); i < width; i += column_step<n>) {
    for (int e = 0; e < n; ++e) dgain[sum_place<n>(i, e)] = dbias[sum_place<n>(i, e)] = 0;
  }
  const std::int64_t first = blockIdx.x * block_rows;
  const std::int64_t end = first + block_rows < rows ? first + block_rows : rows;
  for (std::int64_t row = first + warp; row < end; row += warps) take_row<n>(of, row, width, key, dgain, dbias);
  if constexpr (shared) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < 2 * width; i += static_cast<int>(blockDim.x)) {
      const int place = i < width ? place_of_column<n>(i) : room + place_of_column<n>(i - width);
      float total = 0;
      for (int w = 0; w < warps; ++w) total += sums[2 * room * w + place];
      partial[i] = total;
    }
  }
}

/// A pure function of the extents, so that sums recur.
RowShares share_rows(std::int64_t rows, std::int64_t width) {
  const std::int64_t floats = 2 * sum_room<8>(static_cast<int>(width));
  RowShares shares;
  shares.shared = floats <= most_shared_floats;
  if (shares.shared) shares.warps = most_warps;
  while (shares.warps > 1 && shares.warps * floats > most_shared_floats) shares.warps /= 2;
  const std::int64_t of_warp = (rows + wanted_blocks * shares.warps - 1) / (wanted_blocks * shares.warps);
  shares.block_rows = of_warp * shares.warps;
  shares.blocks = rows == 0 ? 0 : (rows + shares.block_rows - 1) / shares.block_rows;
  return shares;
}

template <class T>
void launch_backward(const LayerNormBackward& op, const RowShares& shares, float* partial, cudaStream_t stream) {
  const std::int64_t rows = op.x.shape[0];
  const int width = static_cast<int>(op.x.shape[1]);
  const NormBackwardOperands<T> operands{.dy = op.dy.as<T>(),
                                         .x = op.x.as<T>(),
                                         .gain = op.gain.as<float>(),
                                         .mean = op.mean.as<float>(),
                                         .rstd = op.rstd.as<float>(),
                                         .dx = op.dx.as<T>(),
                                         .dbranch = op.dbranch ? op.dbranch.as<T>() : nullptr,
                                         .accumulate = op.accumulate};
  const auto launch_as = [&](auto n, auto shared) {
    const int floats = shared ? 2 * sum_room<n>(width) * shares.warps : 0;
    const LaunchPlace place{static_cast<unsigned>(shares.blocks), static_cast<unsigned>(shares.warps * warp_lanes),
                            stream, static_cast<std::size_t>(floats) * sizeof(float)};
    launch(op.name, place, norm_backward_kernel<n, shared, T>, operands, rows, width, op.key, shares.block_rows,
           partial);
  };
  // Beyond shared memory sums lie as they end: column by column.
  if (!shares.shared) return launch_as(std::integral_constant<int, 1>(), std::false_type());
  with_pieces<T>({width}, {operands.dy, operands.x, operands.gain, operands.dx, operands.dbranch},
                 [&](auto n) { launch_as(n, std::true_type()); });
}

}  // namespace

void run(const LayerNormBackward& op, Workspace& workspace) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1];
  const RowShares shares = share_rows(rows, width);
  const Arena::Scope scope(workspace.scratch());
  auto* partial = workspace.scratch().make(Shape{shares.blocks, 2 * width}, DType::f32).as<float>();
  if (rows > 0) {
    with_device_type(op.x.dtype,
                     [&](auto tag) { launch_backward<decltype(tag)>(op, shares, partial, workspace.stream()); });
  }
  launch_add_blocks(partial, shares.blocks, {op.dgain, op.dbias}, op.accumulate_parameters, workspace.stream());
}

}  // namespace babelring::cuda
