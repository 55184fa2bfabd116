#include <type_traits>

#include "nmt/ops/cuda/device_math.cuh"
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

/// How the rows are divided between blocks.
struct RowSlices {
  std::int64_t blocks = 0, block_rows = 1;
  int warps = 1;       // of a block: each takes every warps-th row of it
  bool shared = true;  // sums lie in shared memory while rows are added; else, a warp a block, where they end
};

constexpr std::int64_t multiprocessors = 132;        // of an H200; fixed, so that sums recur elsewhere
constexpr std::int64_t max_shared_floats = 1 << 14;  // 64 KiB: three such blocks fit on one
constexpr int max_warps = 8;
/// Warps of a block, and blocks of a multiprocessor at the same time, where a lane has `pieces` of a row in registers.
constexpr int warps_in_registers = 4;
constexpr int norm_blocks(int pieces) {
  if (pieces == 0) return 3;
  return pieces <= 2 ? 4 : 2;  // 128 or 255 registers a thread
}

/// Extents of a row's sums in shared memory, where they lie by pieces.
template <int n>
__host__ __device__ constexpr int sum_room(int width) {
  return (width + column_step<n> - 1) / column_step<n> * column_step<n>;
}
/// The index of element e of a lane's piece at column i: neighbouring lanes are neighbours, so their banks differ.
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

/// The sums over rows: of dgain, of dbias where rows are centered, and in kernels of one kind more of dbranch_bias.
enum SumKind { sum_of_gain, sum_of_bias };
/// Sums of a centered norm or of one by the root mean square, without those of dbranch_bias.
constexpr int sums_of_norm(bool centered) {
  return centered ? 2 : 1;
}

/// A warp's sums over its rows, `room` floats each. Where a lane has its columns in registers, it writes them down at
/// the end.
template <int n, int pieces, int kinds>
class WarpSums {
 public:
  __device__ WarpSums(float* sums, int room, int) : at_(sums), room_(room) {}
  __device__ void add(int kind, int k, int, int e, float value) { sums_[kind][k * n + e] += value; }
  __device__ void finish() const {
    for_lane_pieces<n, pieces>(0, [&](int k, int i) {
#pragma unroll
      for (int e = 0; e < n; ++e) {
#pragma unroll
        for (int kind = 0; kind < kinds; ++kind) at_[kind * room_ + sum_place<n>(i, e)] = sums_[kind][k * n + e];
      }
    });
  }

 private:
  float* at_;
  int room_;
  float sums_[kinds][n * pieces] = {};
};
template <int n, int kinds>
class WarpSums<n, 0, kinds> {
 public:
  __device__ WarpSums(float* sums, int room, int width) : sums_(sums), room_(room) {
    for_lane_pieces<n, 0>(width, [&](int, int i) {
      for (int e = 0; e < n; ++e) {
        for (int kind = 0; kind < kinds; ++kind) sums_[kind * room_ + sum_place<n>(i, e)] = 0;
      }
    });
  }
  __device__ void add(int kind, int, int i, int e, float value) { sums_[kind * room_ + sum_place<n>(i, e)] += value; }
  __device__ void finish() const {}

 private:
  float* sums_;
  int room_;
};

/// A lane's part of a row, and the row's mean, which is 0 where rows are not centered.
template <class T, int n, int pieces, bool centered>
struct BackwardRow {
  BackwardRow() = default;
  __device__ BackwardRow(const NormBackwardOperands<T>& operands, std::int64_t row, int width)
      : dy(operands.dy + row * width),
        x(operands.x + row * width),
        mean(centered ? operands.mean[row] : 0),
        rstd(operands.rstd[row]) {}
  LaneRow<T, n, pieces> dy, x;
  float mean = 0, rstd = 0;
};

/// dx and dbranch of a row, of whose g and g * normal the means are given; g = dy * gain. What is stored of dbranch is
/// added to the warp's sums, if those are of one kind more than the norm's.
template <int n, int pieces, int kinds, class T, bool centered>
__device__ void write_gradients(const NormBackwardOperands<T>& operands, const BackwardRow<T, n, pieces, centered>& in,
                                std::int64_t row, int width, float mean_g, float mean_projection, const DropoutKey& key,
                                WarpSums<n, pieces, kinds>& sums) {
  const float slope = mean_projection * in.rstd;
  const DeviceDropoutRow mask(key, row);
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const std::int64_t at = row * width + i;
    const auto dy = in.dy.piece(k, i), x = in.x.piece(k, i);
    const auto gain = piece_at<n>(operands.gain + i);
    Elements<T, n> before{};
    if (operands.accumulate) before = Elements<T, n>(operands.dx + at);
    float dx[n];
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float d = (dy[e] * gain.of[e] - mean_g - (x[e] - in.mean) * slope) * in.rstd;
      dx[e] = operands.accumulate ? d + before[e] : d;
    }
    const Elements<T, n> stored(dx);
    put_elements(operands.dx + at, stored);
    if (operands.dbranch == nullptr) return;
    float dbranch[n];
#pragma unroll
    for (int e = 0; e < n; ++e) dbranch[e] = stored[e];
    mask.apply(dbranch, i);
    const Elements<T, n> branch(dbranch);
    put_elements(operands.dbranch + at, branch);
    if constexpr (kinds > sums_of_norm(centered)) {
#pragma unroll
      for (int e = 0; e < n; ++e) sums.add(sums_of_norm(centered), k, i, e, branch[e]);
    }
  });
}

/// A row's gradients; its parts of the sums are added to the warp's.
template <int n, int pieces, int kinds, class T, bool centered>
__device__ void take_row(const NormBackwardOperands<T>& operands, const BackwardRow<T, n, pieces, centered>& in,
                         std::int64_t row, int width, const DropoutKey& key, WarpSums<n, pieces, kinds>& sums) {
  float sum = 0, projection = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto dy = in.dy.piece(k, i), x = in.x.piece(k, i);
    const auto gain = piece_at<n>(operands.gain + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float d = dy[e], normal = (x[e] - in.mean) * in.rstd, g = d * gain.of[e];
      sum += g;
      projection += g * normal;
      sums.add(sum_of_gain, k, i, e, d * normal);
      if constexpr (centered) sums.add(sum_of_bias, k, i, e, d);
    }
  });
  const float mean_g = centered ? warp_sum(sum) / static_cast<float>(width) : 0;
  write_gradients(operands, in, row, width, mean_g, warp_sum(projection) / static_cast<float>(width), key, sums);
}

/// Its blocks' parts of the sums go to partial [blocks, kinds, width]. While a row is computed, the next one is on its
/// way to registers.
template <int n, int pieces, int kinds, bool shared, bool centered, class T>
__global__ void __launch_bounds__((pieces > 0 ? warps_in_registers : max_warps) * warp_lanes,
                                  bound_blocks(norm_blocks(pieces)))
    norm_backward_kernel(NormBackwardOperands<T> operands, std::int64_t rows, int width, DropoutKey key,
                         std::int64_t block_rows, float* partial) {
  await_earlier_kernels();
  if constexpr (pieces > 0) width = pieces * column_step<n>;
  partial += blockIdx.x * kinds * static_cast<std::int64_t>(width);
  const int warp = static_cast<int>(threadIdx.x / warp_lanes), warps = static_cast<int>(blockDim.x / warp_lanes);
  const int room = shared ? sum_room<n>(width) : width;
  float* sums = partial;
  if constexpr (shared) sums = dynamic_shared<float>();
  WarpSums<n, pieces, kinds> own(sums + kinds * room * warp, room, width);
  const std::int64_t first = blockIdx.x * block_rows;
  const std::int64_t end = first + block_rows < rows ? first + block_rows : rows;
  using Row = BackwardRow<T, n, pieces, centered>;
  Row next;
  if (first + warp < end) next = Row(operands, first + warp, width);
  for (std::int64_t row = first + warp; row < end; row += warps) {
    const Row in = next;
    if (row + warps < end) next = Row(operands, row + warps, width);
    take_row(operands, in, row, width, key, own);
  }
  own.finish();
  if constexpr (shared) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kinds * width; i += static_cast<int>(blockDim.x)) {
      const int place = i / width * room + place_of_column<n>(i % width);
      float total = 0;
      for (int w = 0; w < warps; ++w) total += sums[kinds * room * w + place];
      partial[i] = total;
    }
  }
}

/// The blocks that run on a multiprocessor at the same time, the same for all types.
std::int64_t blocks_for(std::int64_t width) {
  return width == 512 ? norm_blocks(2) : norm_blocks(width == 1024 ? 4 : 0);
}

/// A pure function of the extents, so that sums recur.
RowSlices share_rows(std::int64_t rows, std::int64_t width, int kinds) {
  const std::int64_t floats = kinds * sum_room<8>(static_cast<int>(width));
  RowSlices slices;
  slices.shared = floats <= max_shared_floats;
  const bool in_registers = width == 512 || width == 1024;
  if (slices.shared) slices.warps = in_registers ? warps_in_registers : max_warps;
  while (slices.warps > 1 && slices.warps * floats > max_shared_floats) slices.warps /= 2;
  const std::int64_t warps = multiprocessors * blocks_for(width) * slices.warps;
  const std::int64_t of_warp = (rows + warps - 1) / warps;
  slices.block_rows = of_warp * slices.warps;
  slices.blocks = rows == 0 ? 0 : (rows + slices.block_rows - 1) / slices.block_rows;
  return slices;
}

template <class T>
void launch_backward(const LayerNormBackward& op, const RowSlices& slices, float* partial, WorkStream stream) {
  const std::int64_t rows = op.x.shape[0];
  const int width = static_cast<int>(op.x.shape[1]);
  const NormBackwardOperands<T> operands{.dy = op.dy.as<T>(),
                                         .x = op.x.as<T>(),
                                         .gain = op.gain.as<float>(),
                                         .mean = op.mean ? op.mean.as<float>() : nullptr,
                                         .rstd = op.rstd.as<float>(),
                                         .dx = op.dx.as<T>(),
                                         .dbranch = op.dbranch ? op.dbranch.as<T>() : nullptr,
                                         .accumulate = op.accumulate};
  const auto launch_as = [&](auto n, auto pieces, auto kinds, auto shared, auto centered) {
    const int floats = shared ? kinds * sum_room<n>(width) * slices.warps : 0;
    const LaunchShape place{static_cast<unsigned>(slices.blocks), static_cast<unsigned>(slices.warps * warp_lanes),
                            stream, static_cast<std::size_t>(floats) * sizeof(float)};
    launch(op.name, place, norm_backward_kernel<n, pieces, kinds, shared, centered, T>, operands, rows, width, op.key,
           slices.block_rows, partial);
  };
  const auto launch_sums = [&](auto centered, auto kinds) {
    // Beyond shared memory sums lie as they end: column by column.
    constexpr std::integral_constant<int, 0> unknown_value;
    constexpr std::integral_constant<int, 1> one;
    if (!slices.shared) return launch_as(one, unknown_value, kinds, std::false_type(), centered);
    with_row_pieces<T>(width, {operands.dy, operands.x, operands.gain, operands.dx, operands.dbranch},
                       [&](auto n, auto pieces) { launch_as(n, pieces, kinds, std::true_type(), centered); });
  };
  const auto launch_norm = [&](auto centered) {
    constexpr int kinds = sums_of_norm(centered);
    op.dbranch_bias ? launch_sums(centered, std::integral_constant<int, kinds + 1>())
                    : launch_sums(centered, std::integral_constant<int, kinds>());
  };
  op.dbias ? launch_norm(std::true_type()) : launch_norm(std::false_type());
}

}  // namespace

void run(const LayerNormBackward& op, CudaContext& context) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1];
  const int kinds = sums_of_norm(static_cast<bool>(op.dbias)) + (op.dbranch_bias ? 1 : 0);
  const RowSlices slices = share_rows(rows, width, kinds);
  const Arena::Scope scope(context.scratch());
  auto* partial = context.scratch().make(Shape{slices.blocks, kinds * width}, DType::f32).as<float>();
  if (rows > 0) {
    with_device_type(op.x.dtype,
                     [&](auto tag) { launch_backward<decltype(tag)>(op, slices, partial, context.stream()); });
  }
  launch_add_blocks(partial, slices.blocks, {op.dgain, op.dbias, op.dbranch_bias}, op.accumulate_parameters,
                    context.stream());
}

namespace {

// Each warp takes a row, a block norm_rows rows. A lane reads its own values again, unless registers hold its
// pieces.
constexpr int norm_rows = 4;
constexpr int norm_threads = norm_rows * warp_lanes;

/// Parameters and saved statistics of a norm; bias and mean are null where rows are not centered.
struct NormOperands {
  const float *gain, *bias;
  float *mean, *rstd;
  float eps;
};

/// y of a row whose elements add up to `total` over the warp; without `centered` its mean counts as 0.
template <bool centered, int n, int pieces, class T>
__device__ void normalize_row(const LaneRow<T, n, pieces>& x, T* y, int width, std::int64_t row, float total,
                              const NormOperands& norm) {
  const float mean = centered ? warp_sum(total) / static_cast<float>(width) : 0;
  float squares = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = x.piece(k, i);
#pragma unroll
    for (int e = 0; e < n; ++e) squares += (values[e] - mean) * (values[e] - mean);
  });
  const float rstd = 1.0f / sqrtf(warp_sum(squares) / static_cast<float>(width) + norm.eps);
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = x.piece(k, i);
    const auto gain = piece_at<n>(norm.gain + i);
    float normal[n];
    if constexpr (centered) {
      const auto bias = piece_at<n>(norm.bias + i);
#pragma unroll
      for (int e = 0; e < n; ++e) normal[e] = (values[e] - mean) * rstd * gain.of[e] + bias.of[e];
    } else {
#pragma unroll
      for (int e = 0; e < n; ++e) normal[e] = values[e] * rstd * gain.of[e];
    }
    put_elements(y + i, Elements<T, n>(normal));
  });
  if (threadIdx.x % warp_lanes != 0) return;
  if constexpr (centered) norm.mean[row] = mean;
  norm.rstd[row] = rstd;
}

template <int n, int pieces, bool centered, class T>
__global__ void layer_norm_kernel(const T* x, T* y, std::int64_t rows, int width, NormOperands norm) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<norm_rows>();
  if (row >= rows) return;
  if constexpr (pieces > 0) width = pieces * column_step<n>;
  const LaneRow<T, n, pieces> own(x + row * width);
  float total = 0;
  for_lane_pieces<n, pieces>(width, [&](int k, int i) {
    const auto values = own.piece(k, i);
#pragma unroll
    for (int e = 0; e < n; ++e) total += values[e];
  });
  normalize_row<centered>(own, y + row * width, width, row, total, norm);
}

template <int n, int pieces, bool centered, class T>
__global__ void residual_norm_kernel(const T* residual, const T* branch, T* sum, T* y, std::int64_t rows, int width,
                                     DropoutKey key, NormOperands norm) {
  await_earlier_kernels();
  const std::int64_t row = row_of_warp<norm_rows>();
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
  normalize_row<centered>(own, y + row * width, width, row, total, norm);
}

template <class Op>
NormOperands norm_operands(const Op& op) {
  return {op.gain.template as<float>(), op.bias.template as<float>(), op.mean.template as<float>(),
          op.rstd.template as<float>(), op.eps};
}

/// with_row_pieces() for a norm: body(n, pieces, centered), each a std::integral_constant.
template <class T, class Op, class Body>
void with_norm_pieces(const Op& op, std::initializer_list<const void*> places, Body&& body) {
  with_row_pieces<T>(op.y.shape[1], places, [&](auto n, auto pieces) {
    op.bias ? body(n, pieces, std::true_type()) : body(n, pieces, std::false_type());
  });
}

}  // namespace

void run(const LayerNormForward& op, CudaContext& context) {
  const std::int64_t rows = op.x.shape[0];
  if (op.x.shape.elements() == 0) return;
  with_device_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto places = {op.x.data, static_cast<const void*>(op.y.data), op.gain.data, op.bias.data};
    with_norm_pieces<T>(op, places, [&](auto n, auto pieces, auto centered) {
      launch(op.name, {row_blocks<norm_rows>(rows), norm_threads, context.stream()},
             layer_norm_kernel<n, pieces, centered, T>, op.x.as<T>(), op.y.as<T>(), rows,
             static_cast<int>(op.x.shape[1]), norm_operands(op));
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
    with_norm_pieces<T>(op, places, [&](auto n, auto pieces, auto centered) {
      launch(op.name, {row_blocks<norm_rows>(rows), norm_threads, context.stream()},
             residual_norm_kernel<n, pieces, centered, T>, op.residual.as<T>(), op.branch.as<T>(), op.sum.as<T>(),
             op.y.as<T>(), rows, static_cast<int>(op.y.shape[1]), op.key, norm_operands(op));
    });
  });
}

}  // namespace babelring::cuda
