#pragma once

#include <cmath>
#include <type_traits>

#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/attention_plan.h"
#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/mma.cuh"

/// Shared by forward and backward of tile_attention.h. A tile is rows of a head in shared memory, `width` columns each
/// (zeros where the head is narrower) and 16 bytes apart, so that eight rows lie in different banks. A block with
/// several heads has a tile of `room` rows for each, one behind the other.
namespace babelring::cuda {

constexpr int group_rows = 16;  // of a warp
constexpr int tile_bits = 6;    // of tile_rows
constexpr int tile_threads = tile_rows / group_rows * warp_lanes;

constexpr int tile_stride(int width) {
  return width + 8;
}
__host__ __device__ constexpr int round_up(int value, int multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// The arguments that all blocks share.
struct TileArguments {
  const TileItem* items;
  const int *q_offsets, *k_offsets;
  int heads, head_width;
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

/// The block's part of the batch: rows of a sentence, and `heads` neighbouring heads.
struct TileRange {
  /// `own_keys`: the block's rows, whose number decides how many heads it takes, are keys; else queries.
  __device__ TileRange(const TileArguments& arguments, bool own_keys) : head_width(arguments.head_width) {
    const TileItem item = arguments.items[blockIdx.x];
    empty = item.sentence < 0;
    if (empty) return;
    first_head = item.part % arguments.heads, tile = item.part / arguments.heads;
    first_query = arguments.q_offsets[item.sentence], queries = arguments.q_offsets[item.sentence + 1] - first_query;
    first_key = arguments.k_offsets[item.sentence], keys = arguments.k_offsets[item.sentence + 1] - first_key;
    const int rows = own_keys ? keys : queries;
    head_bits = rows <= tile_rows / 4 ? 2 : rows <= tile_rows / 2 ? 1 : 0;
    heads = min(1 << head_bits, arguments.heads - first_head);
  }
  /// Rows of a tile.
  __device__ int room() const { return tile_rows >> head_bits; }
  /// The warp's tile, and its first row there.
  __device__ int slot() const { return tile_row() >> (tile_bits - head_bits); }
  __device__ int own() const { return tile_row() & (room() - 1); }
  /// The same among the rows of all the block's tiles.
  __device__ static int tile_row() { return static_cast<int>(threadIdx.x) / warp_lanes * group_rows; }
  /// The address of column 0 of the block's head number `of_slot` in a row of a tensor.
  template <class T>
  __device__ T* row_of(const PackedTensor<T>& tensor, std::int64_t row, int of_slot) const {
    return tensor.data + row * tensor.stride + (first_head + of_slot) * head_width;
  }

  bool empty;
  int head_width;
  int first_head, heads, head_bits;  // 1 << head_bits: tiles in the block, of which `heads` are used
  int tile;
  int first_query, queries, first_key, keys;  // of the sentence
};

/// The dropout key of a head.
__device__ inline DropoutKey key_of_head(DropoutKey key, int head) {
  key = read_key(key);
  key.key = derive_seed(key.key, static_cast<std::uint64_t>(head));
  return key;
}
/// The random bits of keys 2 pair (the lower half) and 2 pair + 1: those of DropoutKey::bits().
__device__ inline unsigned pair_bits(unsigned row_key, int pair) {
  return mix32(row_key ^ (static_cast<unsigned>(pair) * DropoutKey::pair_factor));
}

/// Starts to copy `count` rows from `first_row` on to the tiles of all heads of the block, each of `room` rows; rows up
/// to `padded` <= room, and columns beyond the head, become zeros. By all threads of the block.
template <int width>
__device__ void load_tiles(bfloat* tiles, int room, int padded, const PackedTensor<const bfloat>& from,
                           std::int64_t first_row, int count, const TileRange& at) {
  constexpr int pieces = width / 8;
  const int end = (padded * pieces) << at.head_bits;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < end; i += tile_threads) {
    const int column = i % pieces * 8, at_row = i / pieces;
    const int slot = at_row & ((1 << at.head_bits) - 1), row = at_row >> at.head_bits;
    copy_async_16(tiles + (slot * room + row) * tile_stride(width) + column,
                  at.row_of(from, first_row + row, slot) + column,
                  row < count && column < at.head_width && slot < at.heads);
  }
}

/// Writes `count` rows of the warp's tile, which begin at `tile`, to memory from `row` on.
template <int width>
__device__ void store_rows(const bfloat* tile, const PackedTensor<bfloat>& to, std::int64_t row, int count,
                           const TileRange& at, int slot) {
  constexpr int pieces = width / 8;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x % warp_lanes); i < count * pieces; i += warp_lanes) {
    const int column = i % pieces * 8;
    if (column >= at.head_width) continue;
    *reinterpret_cast<uint4*>(at.row_of(to, row + i / pieces, slot) + column) =
        *reinterpret_cast<const uint4*>(tile + i / pieces * tile_stride(width) + column);
  }
}

/// The address that a lane gives load_matrix_x4 for the 16 x 16 block at (row, column): of its four matrices the second
/// is the lower one. Plain, it gives a matmul's left factor; transposed, the right factor from rows that are summed
/// over.
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
TileArguments tile_arguments(const Op& op, const TilePlan& plan, CudaContext& context) {
  const std::int32_t* list = context.lists().on_device(plan.list);
  const std::size_t offsets = plan.sentences + 1;
  return {.items = reinterpret_cast<const TileItem*>(list + 2 * offsets),
          .q_offsets = list,
          .k_offsets = list + offsets,
          .heads = op.heads,
          .head_width = static_cast<int>(op.q.shape[1] / op.heads),
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
