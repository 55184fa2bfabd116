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

constexpr std::int64_t multiprocessors = 132;        // of an H200; fixed, so that sums recur elsewhere
constexpr std::int64_t max_shared_floats = 1 << 14;  // 64 KiB: three such blocks fit on one
constexpr int max_warps = 8;
/// Warps of a block, and blocks of a multiprocessor at the same time, where a lane has `pieces` of a row in registers.
constexpr int warps_in_registers = 4;
constexpr int blocks_at_once(int pieces) {
  if (pieces == 0) return 3;
  return pieces <= 2 ? 4 : 2;  // 128 or 255 registers a thread
}

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

/// A warp's sums over its rows. Where a lane has its columns in registers, it writes them down at the end.
template <int n, int pieces>
class WarpSums {
 public:
  __device__ WarpSums(float* dgain, float* dbias, int) : dgain_at_(dgain), dbias_at_(dbias) {}
  __device__ void add(int k, int, int e, float dgain, float dbias) {
    dgain_[k * n + e] += dgain, dbias_[k * n + e] += dbias;
  }
  __device__ void finish() const {
    for_lane_pieces<n, pieces>(0, [&](int k, int i) {
#pragma unroll
      for (int e = 0; e < n; ++e) {
        dgain_at_[sum_place<n>(i, e)] = dgain_[k * n + e], dbias_at_[sum_place<n>(i, e)] = dbias_[k * n + e];
      }
    });
  }

 private:
  float *dgain_at_, *dbias_at_;
  float dgain_[n * pieces] = {}, dbias_[n * pieces] = {};
};
template <int n>
class WarpSums<n, 0> {
 public:
  __device__ WarpSums(float* dgain, float* dbias, int width) : dgain_(dgain), dbias_(dbias) {
    for_lane_pieces<n, 0>(width, [&](int, int i) {
      for (int e = 0; e < n; ++e) dgain_[sum_place<n>(i, e)] = dbias_[sum_place<n>(i, e)] = 0;
    });
  }
  __device__ void add(int, int i, int e, float dgain, float dbias) {
    const int place = sum_place<n>(i, e);
    dgain_[place] += dgain, dbias_[place] += dbias;
  }
  __device__ void finish() const {}

 private:
  float *dgain_, *dbias_;
};

/// A lane's part of a row.
template <class T, int n, int pieces>
struct BackwardRow {
  BackwardRow() = default;
  __device__ BackwardRow(const NormBackwardOperands<T>& of, std::int64_t row, int width)
      : dy(of.dy + row * width), x(of.x + row * width), mean(of.mean[row]), rstd(of.rstd[row]) {}
  LaneRow<T, n, pieces> dy, x;
  float mean = 0, rstd = 0;
};

/// dx and dbranch of a row, of whose g and g * normal the means are given; g = dy * gain.
template <int n, int pieces, class T>
__device__ void write_gradients(const NormBackwardOperands<T>& of, const BackwardRow<T, n, pieces>& in,
                                std::int64_t row, int width, float mean_g, float mean_projection,
                                const DropoutKey& key) {
  const float slope = mean_projection * in.rstd;
  const DeviceDropoutRow mask(key, row);
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const std::int64_t at = row * width + i;
    const auto dy = in.dy.piece(k, i), x = in.x.piece(k, i);
    const auto gain = piece_at<n>(of.gain + i);
    Elements<T, n> before{};
    if (of.accumulate) before = Elements<T, n>(of.dx + at);
    float dx[n];
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float d = (dy[e] * gain.of[e] - mean_g - (x[e] - in.mean) * slope) * in.rstd;
      dx[e] = of.accumulate ? d + before[e] : d;
    }
    const Elements<T, n> stored(dx);
    put_elements(of.dx + at, stored);
    if (of.dbranch == nullptr) return;
    float dbranch[n];
#pragma unroll
    for (int e = 0; e < n; ++e) dbranch[e] = stored[e];
    mask.apply(dbranch, i);
    put_elements(of.dbranch + at, Elements<T, n>(dbranch));
  });
}

/// A row's gradients; its parts of dgain and dbias are added to the warp's.
template <int n, int pieces, class T>
__device__ void take_row(const NormBackwardOperands<T>& of, const BackwardRow<T, n, pieces>& in, std::int64_t row,
                         int width, const DropoutKey& key, WarpSums<n, pieces>& sums) {
  float sum = 0, projection = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto dy = in.dy.piece(k, i), x = in.x.piece(k, i);
    const auto gain = piece_at<n>(of.gain + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float d = dy[e], normal = (x[e] - in.mean) * in.rstd, g = d * gain.of[e];
      sum += g;
      projection += g * normal;
      sums.add(k, i, e, d * normal, d);
    }
  });
  const float mean_g = warp_sum(sum) / static_cast<float>(width);
  write_gradients(of, in, row, width, mean_g, warp_sum(projection) / static_cast<float>(width), key);
}

/// Its blocks' parts of dgain and dbias go to partial [blocks, 2, width]. While a row is computed, the next one is on
/// its way to registers.
template <int n, int pieces, bool shared, class T>
__global__ void __launch_bounds__((pieces > 0 ? warps_in_registers : max_warps) * warp_lanes, blocks_at_once(pieces))
    norm_backward_kernel(NormBackwardOperands<T> of, std::int64_t rows, int width, DropoutKey key,
                         std::int64_t block_rows, float* partial) {
  if constexpr (pieces > 0) width = pieces * column_step<n>;
  partial += blockIdx.x * 2 * static_cast<std::int64_t>(width);
  const int warp = static_cast<int>(threadIdx.x / warp_lanes), warps = static_cast<int>(blockDim.x / warp_lanes);
  const int room = shared ? sum_room<n>(width) : width;
  float* sums = partial;
  if constexpr (shared) sums = dynamic_shared<float>();
  float* dgain = sums + 2 * room * warp;
  WarpSums<n, pieces> own(dgain, dgain + room, width);
  const std::int64_t first = blockIdx.x * block_rows;
  const std::int64_t end = first + block_rows < rows ? first + block_rows : rows;
  BackwardRow<T, n, pieces> next;
  if (first + warp < end) next = BackwardRow<T, n, pieces>(of, first + warp, width);
  for (std::int64_t row = first + warp; row < end; row += warps) {
    const BackwardRow<T, n, pieces> in = next;
    if (row + warps < end) next = BackwardRow<T, n, pieces>(of, row + warps, width);
    take_row(of, in, row, width, key, own);
  }
  own.finish();
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

/// The blocks that run on a multiprocessor at the same time, the same for all types.
std::int64_t blocks_for(std::int64_t width) {
  return width == 512 ? blocks_at_once(2) : blocks_at_once(width == 1024 ? 4 : 0);
}

/// A pure function of the extents, so that sums recur.
RowShares share_rows(std::int64_t rows, std::int64_t width) {
  const std::int64_t floats = 2 * sum_room<8>(static_cast<int>(width));
  RowShares shares;
  shares.shared = floats <= max_shared_floats;
  const bool in_registers = width == 512 || width == 1024;
  if (shares.shared) shares.warps = in_registers ? warps_in_registers : max_warps;
  while (shares.warps > 1 && shares.warps * floats > max_shared_floats) shares.warps /= 2;
  const std::int64_t warps = multiprocessors * blocks_for(width) * shares.warps;
  const std::int64_t of_warp = (rows + warps - 1) / warps;
  shares.block_rows = of_warp * shares.warps;
  shares.blocks = rows == 0 ? 0 : (rows + shares.block_rows - 1) / shares.block_rows;
  return shares;
}

template <class T>
void launch_backward(const LayerNormBackward& op, const RowShares& shares, float* partial, WorkStream stream) {
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
  const auto launch_as = [&](auto n, auto pieces, auto shared) {
    const int floats = shared ? 2 * sum_room<n>(width) * shares.warps : 0;
    const LaunchPlace place{static_cast<unsigned>(shares.blocks), static_cast<unsigned>(shares.warps * warp_lanes),
                            stream, static_cast<std::size_t>(floats) * sizeof(float)};
    launch(op.name, place, norm_backward_kernel<n, pieces, shared, T>, operands, rows, width, op.key, shares.block_rows,
           partial);
  };
  // Beyond shared memory sums lie as they end: column by column.
  constexpr std::integral_constant<int, 0> unknown_value;
  if (!shares.shared) return launch_as(std::integral_constant<int, 1>(), unknown_value, std::false_type());
  with_row_pieces<T>(width, {operands.dy, operands.x, operands.gain, operands.dx, operands.dbranch},
                     [&](auto n, auto pieces) { launch_as(n, pieces, std::true_type()); });
}

}  // namespace

void run(const LayerNormBackward& op, CudaContext& context) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1];
  const RowShares shares = share_rows(rows, width);
  const Arena::Scope scope(context.scratch());
  auto* partial = context.scratch().make(Shape{shares.blocks, 2 * width}, DType::f32).as<float>();
  if (rows > 0) {
    with_device_type(op.x.dtype,
                     [&](auto tag) { launch_backward<decltype(tag)>(op, shares, partial, context.stream()); });
  }
  launch_add_blocks(partial, shares.blocks, {op.dgain, op.dbias}, op.accumulate_parameters, context.stream());
}

}  // namespace babelring::cuda
