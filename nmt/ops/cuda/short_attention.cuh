#pragma once

#include <cmath>
#include <type_traits>

#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/mma.cuh"

/// What forward and backward of short_attention.h share. A tile is rows of a head in shared memory, `width` columns
/// each (zeros where the head is narrower) and 16 bytes apart, so that eight rows lie in different banks.
namespace babelring::cuda {

constexpr int group_rows = 16;  // a warp's own rows

/// Of a block, whose warps have 16 rows each.
constexpr int max_tile_rows(int width) {
  return width <= 64 ? 256 : 128;
}
constexpr int max_tile_threads(int width) {
  return max_tile_rows(width) / group_rows * warp_lanes;
}
constexpr int tile_stride(int width) {
  return width + 8;
}
__host__ __device__ constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// What is the same for all blocks. A block takes its sentence if the rows that its warps own are in (above, most].
struct ShortShape {
  const int *q_offsets, *k_offsets;
  int heads, head_width, above, most;
  bool causal;
  float scale;
  DropoutKey key;
};

/// A packed tensor [tokens, width].
template <class T>
struct PackedTensor {
  T* data;
  std::int64_t stride;
};

/// The block's sentence and head.
struct ShortPlace {
  __device__ explicit ShortPlace(const ShortShape& of) {
    const int sentence = blockIdx.x / of.heads;
    head = blockIdx.x % of.heads;
    column = head * of.head_width;
    first_query = of.q_offsets[sentence], queries = of.q_offsets[sentence + 1] - first_query;
    first_key = of.k_offsets[sentence], keys = of.k_offsets[sentence + 1] - first_key;
  }
  template <class T>
  __device__ T* query_rows(const PackedTensor<T>& tensor, int row) const {
    return tensor.data + (first_query + static_cast<std::int64_t>(row)) * tensor.stride + column;
  }
  template <class T>
  __device__ T* key_rows(const PackedTensor<T>& tensor, int row) const {
    return tensor.data + (first_key + static_cast<std::int64_t>(row)) * tensor.stride + column;
  }
  int head, column, first_query, queries, first_key, keys;
};

/// Dropout's key of the head.
__device__ inline DropoutKey key_of_head(DropoutKey key, int head) {
  key = read_key(key);
  key.key = derive_seed(key.key, static_cast<std::uint64_t>(head));
  return key;
}
/// The random bits of keys 2 pair (the lower half) and 2 pair + 1: those of DropoutKey::bits().
__device__ inline unsigned pair_bits(unsigned row_key, int pair) {
  return mix32(row_key ^ (static_cast<unsigned>(pair) * DropoutKey::pair_factor));
}

/// Starts to copy `count` rows of a head to a tile; rows up to `room`, and columns up to the tile's, become zeros. By
/// all threads of the block.
template <int width>
__device__ void load_tile(bfloat* tile, int room, const bfloat* rows, std::int64_t stride, int count, int head_width) {
  constexpr int pieces = width / 8;
  for (int i = threadIdx.x; i < room * pieces; i += blockDim.x) {
    const int row = i / pieces, column = i % pieces * 8;
    copy_async_16(tile + row * tile_stride(width) + column, rows + row * stride + column,
                  row < count && column < head_width);
  }
}

/// Writes `count` rows of a tile to memory; thread `index` of `threads`.
template <int width>
__device__ void store_tile(const bfloat* tile, bfloat* rows, std::int64_t stride, int count, int head_width, int index,
                           int threads) {
  constexpr int pieces = width / 8;
  for (int i = index; i < count * pieces; i += threads) {
    const int row = i / pieces, column = i % pieces * 8;
    if (column >= head_width) continue;
    *reinterpret_cast<uint4*>(rows + row * stride + column) =
        *reinterpret_cast<const uint4*>(tile + row * tile_stride(width) + column);
  }
}

/// What a lane names to load_matrix_x4 for the 16 x 16 block at (row, column): of its four matrices the second is the
/// lower one. Plain, it gives a matmul's left factor; transposed, the right factor from rows that are summed over.
__device__ inline const bfloat* block_down(const bfloat* tile, int stride, int row, int column) {
  const int lane = threadIdx.x % warp_lanes;
  return tile + (row + lane % 16) * stride + column + lane / 16 * 8;
}
/// The second is the right one. Plain, it gives the right factor from rows that are columns of the matmul; transposed,
/// the left factor from rows that are summed over.
__device__ inline const bfloat* block_across(const bfloat* tile, int stride, int row, int column) {
  const int lane = threadIdx.x % warp_lanes;
  return tile + (row + lane % 8 + lane / 16 * 8) * stride + column + lane / 8 % 2 * 8;
}

/// Two neighbouring blocks [16, 8] of sums += a [16, 16] b [16, 16].
__device__ inline void multiply_block(float (&left)[4], float (&right)[4], const unsigned (&a)[4],
                                      const unsigned (&b)[4]) {
  mma_m16n8k16(left, a, {b[0], b[1]});
  mma_m16n8k16(right, a, {b[2], b[3]});
}

/// Two neighbouring blocks of sums as the left factor of the next matmul.
__device__ inline void pack_block(unsigned (&a)[4], const float (&left)[4], const float (&right)[4]) {
  a[0] = pack_bf16(left[0], left[1]), a[1] = pack_bf16(left[2], left[3]);
  a[2] = pack_bf16(right[0], right[1]), a[3] = pack_bf16(right[2], right[3]);
}

/// Writes sums [16, width] times the factors of rows r and r + 8 to rows of a tile.
template <int blocks>
__device__ void put_sums(const float (&sums)[blocks][4], float upper, float lower, bfloat* rows, int stride) {
  const int lane = threadIdx.x % warp_lanes;
  auto* at = reinterpret_cast<unsigned*>(rows + lane / 4 * stride + lane % 4 * 2);
  auto* below = reinterpret_cast<unsigned*>(rows + (lane / 4 + 8) * stride + lane % 4 * 2);
#pragma unroll
  for (int n = 0; n < blocks; ++n) {
    at[n * 4] = pack_bf16(sums[n][0] * upper, sums[n][1] * upper);
    below[n * 4] = pack_bf16(sums[n][2] * lower, sums[n][3] * lower);
  }
}

/// Calls body(std::integral_constant) with the tile's width for heads of `head_width`.
template <class Body>
void with_tile_width(std::int64_t head_width, Body&& body) {
  if (head_width <= 32) {
    body(std::integral_constant<int, 32>());
  } else if (head_width <= 64) {
    body(std::integral_constant<int, 64>());
  } else {
    body(std::integral_constant<int, 128>());
  }
}

template <class Op>
ShortShape short_shape(const Op& op, const ShortLaunch& launch, CudaContext& context) {
  return {.q_offsets = context.lists().on_device(host_list(op.q_offsets)),
          .k_offsets = context.lists().on_device(host_list(op.k_offsets)),
          .heads = op.heads,
          .head_width = static_cast<int>(op.q.shape[1] / op.heads),
          .above = launch.above,
          .most = launch.most,
          .causal = op.causal,
          .scale = op.scale,
          .key = op.key};
}
inline PackedTensor<const bfloat> packed(const ConstTensor& tensor) {
  return {tensor.as<bfloat>(), tensor.row_stride};
}
inline PackedTensor<bfloat> packed(const Tensor& tensor) {
  return {tensor.as<bfloat>(), tensor.row_stride};
}

}  // namespace babelring::cuda
