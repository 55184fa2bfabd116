#include <algorithm>

#include "nmt/ops/cuda/fast_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/tile_attention.cuh"
#include "nmt/ops/cuda/tile_attention.h"

namespace babelring::cuda {

namespace {

/// The shared memory of a block. `room`: rows of a tile of one head.
template <int width>
struct BackwardTiles {
  static constexpr int stride = tile_stride(width);
  /// Room for the gradients of scores: a row of at most 64 + 8 for each of at most 64 keys.
  static constexpr int score_room = tile_rows * (tile_rows + 8);
  static constexpr std::size_t bytes =
      (5 * tile_rows * stride + score_room) * sizeof(bfloat) + tile_rows * (2 * sizeof(float) + sizeof(unsigned));
  __device__ explicit BackwardTiles(int tile_room) : room(tile_room), score_stride(tile_room + 8) {
    keys = dynamic_shared<bfloat>();
    values = keys + tile_rows * stride;
    queries = values + tile_rows * stride;
    dout = queries + tile_rows * stride;
    out = dout + tile_rows * stride;
    dscores = out + tile_rows * stride;
    log_sums = reinterpret_cast<float*>(dscores + score_room);
    means = log_sums + tile_rows;
    row_keys = reinterpret_cast<unsigned*>(means + tile_rows);
  }
  int room, score_stride;
  bfloat *keys, *values, *queries, *dout, *out, *dscores;
  float* log_sums;     // of each query, in units of log 2
  float* means;        // of the gradients of its probabilities, by probability
  unsigned* row_keys;  // of its dropout
};

/// 16 keys of a head, those of one warp. A lane has keys r = lane / 4 and r + 8, and queries c = lane % 4 * 2 and c +
/// 1, of the matmul results.
template <int width>
class KeyGroup {
 public:
  /// `first`: the warp's first key in the sentence.
  __device__ KeyGroup(const TileArguments& arguments, const TileRange& at, const BackwardTiles<width>& tiles, int first)
      : tiles_(tiles),
        causal_(arguments.causal),
        keys_(at.slot() < at.heads ? at.keys : 0),
        first_(first),
        tile_row_(at.tile_row()),
        queries_row_(at.slot() * at.room()),
        factor_(arguments.scale * log2_e),
        survivors_scale_(arguments.key.scale()),
        threshold_(arguments.key.threshold()) {}

  /// Whether any of the keys is seen by a query up to this.
  __device__ bool seen(int last_query) const { return first_ < keys_ && (!causal_ || first_ <= last_query); }

  /// Adds the part of 16 queries: those from row `row` of the tile, which is query `query` of the sentence. Leaves the
  /// gradients of their scores in shared memory.
  __device__ void add(int row, int query) {
    float scores[2][4] = {}, gradients[2][4] = {};
    unsigned a[4], b[4];
    const int place = queries_row_ + row;
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4(a, block_down(tiles_.keys, stride, tile_row_, c * 16));
      load_matrix_x4(b, block_across(tiles_.queries, stride, place, c * 16));
      multiply_block(scores[0], scores[1], a, b);
      load_matrix_x4(a, block_down(tiles_.values, stride, tile_row_, c * 16));
      load_matrix_x4(b, block_across(tiles_.dout, stride, place, c * 16));
      multiply_block(gradients[0], gradients[1], a, b);
    }
    soften(scores[0], gradients[0], place, query);
    soften(scores[1], gradients[1], place + 8, query + 8);
    unsigned dscores[4];
    pack_block(a, scores[0], scores[1]);
    pack_block(dscores, gradients[0], gradients[1]);
    put(dscores, row);
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4_transposed(b, block_down(tiles_.dout, stride, place, c * 16));
      multiply_block(dv_[2 * c], dv_[2 * c + 1], a, b);
      load_matrix_x4_transposed(b, block_down(tiles_.queries, stride, place, c * 16));
      multiply_block(dk_[2 * c], dk_[2 * c + 1], dscores, b);
    }
  }

  /// Puts the sums to the warp's rows of the tiles of keys and values, which no warp reads any more.
  __device__ void finish(float scale) {
    put_sums(dk_, scale, scale, tiles_.keys + tile_row_ * stride, stride);
    put_sums(dv_, 1.0f, 1.0f, tiles_.values + tile_row_ * stride, stride);
    __syncwarp();
  }

 private:
  static constexpr int stride = tile_stride(width);

  /// For two keys and two queries: turns dot products into probabilities after dropout, and gradients of probabilities
  /// into gradients of scores. The queries are from row `place` of their tiles on, and `query` in the sentence.
  __device__ void soften(float (&scores)[4], float (&gradients)[4], int place, int query) const {
    const int lane = threadIdx.x % warp_lanes, column = lane % 4 * 2, key = first_ + lane / 4;
    unsigned kept[4] = {1, 1, 1, 1};
    if (threshold_ > 0) survivors(kept, place + column, key);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int of_query = column + e % 2, of_key = key + e / 2 * 8;
      const bool visible = of_key < keys_ && (!causal_ || of_key <= query + of_query);
      const float power = exp2_approx(scores[e] * factor_ - tiles_.log_sums[place + of_query]);
      const float probability = visible ? power : 0.0f, scale = kept[e] != 0 ? survivors_scale_ : 0.0f;
      scores[e] = probability * scale;
      gradients[e] = visible ? probability * (gradients[e] * scale - tiles_.means[place + of_query]) : 0.0f;
    }
  }

  /// Which of two keys' elements with two queries stay. Keys 2 i and 2 i + 1 share their random bits, and are in lanes
  /// four apart: each of the two makes them for one query.
  __device__ void survivors(unsigned (&kept)[4], int place, int key) const {
    const int odd = key % 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned own = pair_bits(tiles_.row_keys[place + odd], key / 2 + half * 4);
      const unsigned others = __shfl_xor_sync(all_lanes, own, 4);
      const unsigned of_first = odd ? others : own, of_second = odd ? own : others;
      kept[half * 2] = (odd ? of_first >> 16 : of_first & 0xffffU) >= threshold_;
      kept[half * 2 + 1] = (odd ? of_second >> 16 : of_second & 0xffffU) >= threshold_;
    }
  }

  __device__ void put(const unsigned (&dscores)[4], int row) const {
    const int lane = threadIdx.x % warp_lanes, score_stride = tiles_.score_stride;
    bfloat* at = tiles_.dscores + (tile_row_ + lane / 4) * score_stride + row + lane % 4 * 2;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      *reinterpret_cast<unsigned*>(at + e % 2 * 8 * score_stride + e / 2 * 8) = dscores[e];
    }
  }

  const BackwardTiles<width>& tiles_;
  bool causal_;
  int keys_, first_, tile_row_, queries_row_;
  float factor_, survivors_scale_;
  unsigned threshold_;
  float dk_[width / 8][4] = {}, dv_[width / 8][4] = {};
};

/// Eight numbers of a tile's row times eight of another's.
__device__ inline float dot_piece(const bfloat* a, const bfloat* b) {
  const uint4 of_a = *reinterpret_cast<const uint4*>(a), of_b = *reinterpret_cast<const uint4*>(b);
  const unsigned x[4] = {of_a.x, of_a.y, of_a.z, of_a.w}, y[4] = {of_b.x, of_b.y, of_b.z, of_b.w};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a bf16 is the upper half of an f32
    sum += std::bit_cast<float>(x[i] << 16) * std::bit_cast<float>(y[i] << 16);
    sum += std::bit_cast<float>(x[i] & 0xffff0000U) * std::bit_cast<float>(y[i] & 0xffff0000U);
  }
  return sum;
}

/// The mean of a query's gradients of probabilities is the dot product of its output and the output's gradient.
template <int width>
__device__ void find_means(const BackwardTiles<width>& tiles) {
  constexpr int pieces = width / 8;
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < tile_rows * pieces; i += tile_threads) {  // whole warps
    const int row = i / pieces, at = row * tile_stride(width) + i % pieces * 8;
    float sum = dot_piece(tiles.dout + at, tiles.out + at);
#pragma unroll
    for (int apart = pieces / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(all_lanes, sum, apart);
    if (i % pieces == 0) tiles.means[row] = sum;
  }
}

struct BackwardTensors {
  PackedTensor<const bfloat> q, k, v, out, dout;
  PackedTensor<bfloat> dq, dk, dv;
  const float* log_sum_exp;
};

/// Copies the tiles of queries that begin with `first`, and waits for all copies of the block.
template <int width>
__device__ void load_queries(const BackwardTiles<width>& tiles, const BackwardTensors& tensors,
                             const TileArguments& arguments, const TileRange& at, int first) {
  const int count = min(at.room(), at.queries - first);
  const std::int64_t first_token = at.first_query + static_cast<std::int64_t>(first);
  load_tiles<width>(tiles.queries, at.room(), at.room(), tensors.q, first_token, count, at);
  load_tiles<width>(tiles.dout, at.room(), at.room(), tensors.dout, first_token, count, at);
  load_tiles<width>(tiles.out, at.room(), at.room(), tensors.out, first_token, count, at);
  commit_copies();
  if (threadIdx.x < tile_rows) {
    const int slot = static_cast<int>(threadIdx.x) >> (tile_bits - at.head_bits);
    const int row = static_cast<int>(threadIdx.x) & (at.room() - 1);
    const int head = at.first_head + slot;
    const bool inside = row < count && slot < at.heads;
    tiles.log_sums[threadIdx.x] =
        inside ? tensors.log_sum_exp[(first_token + row) * arguments.heads + head] * log2_e : INFINITY;
    tiles.row_keys[threadIdx.x] = key_of_head(arguments.key, head).row_key(first_token + row);
  }
  wait_copies<0>();
  __syncthreads();
}

/// Starts to copy the tiles of `count` keys and their values that begin with `first`.
template <int width>
__device__ void load_keys(const BackwardTiles<width>& tiles, const BackwardTensors& tensors, const TileRange& at,
                          int first, int count) {
  const int padded = round_up(count, group_rows);
  load_tiles<width>(tiles.keys, at.room(), padded, tensors.k, at.first_key + first, count, at);
  load_tiles<width>(tiles.values, at.room(), padded, tensors.v, at.first_key + first, count, at);
}

/// dq of the queries in shared memory, which are `first` and on in the sentence, where the block has all keys: blocks
/// of 16 queries and 16 columns, each by one warp, to the tiles of `out`.
template <int width>
__device__ void query_gradients(const BackwardTiles<width>& tiles, const TileArguments& arguments, const TileRange& at,
                                int first) {
  constexpr int stride = tile_stride(width), groups = tile_rows / group_rows;
  const int count = min(at.room(), at.queries - first);
  for (int item = static_cast<int>(threadIdx.x) / warp_lanes; item < groups * (width / 16);
       item += tile_threads / warp_lanes) {
    const int place = item % groups * group_rows, slot = place >> (tile_bits - at.head_bits),
              row = place & (at.room() - 1);
    const int column = item / groups * 16, tile = slot * at.room();
    if (row >= count || slot >= at.heads) continue;
    const int reach = arguments.causal ? min(at.keys, first + row + group_rows) : at.keys;
    float sums[2][4] = {};
    for (int key = 0; key < reach; key += 16) {
      unsigned a[4], b[4];
      load_matrix_x4_transposed(a, block_across(tiles.dscores, tiles.score_stride, tile + key, row));
      load_matrix_x4_transposed(b, block_down(tiles.keys, stride, tile + key, column));
      multiply_block(sums[0], sums[1], a, b);
    }
    put_sums(sums, arguments.scale, arguments.scale, tiles.out + place * stride + column, stride);
  }
}

/// Writes rows of the tiles of `out`, the gradients of queries from `first` on.
template <int width>
__device__ void store_query_gradients(const BackwardTiles<width>& tiles, const BackwardTensors& tensors,
                                      const TileRange& at, int first) {
  const int own = min(group_rows, min(at.room(), at.queries - first) - at.own());
  if (own <= 0 || at.slot() >= at.heads) return;
  store_rows<width>(tiles.out + (at.tile_row()) * tile_stride(width), tensors.dq,
                    at.first_query + static_cast<std::int64_t>(first) + at.own(), own, at, at.slot());
}

/// A block with keys from `first_key` on: dk and dv, and dq where these are all keys.
template <int width>
__device__ void take_keys(const BackwardTiles<width>& tiles, const BackwardTensors& tensors,
                          const TileArguments& arguments, const TileRange& at, int first_key) {
  const int count = min(at.room(), at.keys - first_key);
  const bool all_keys = at.keys <= at.room();
  load_keys(tiles, tensors, at, first_key, count);
  KeyGroup<width> group(arguments, at, tiles, first_key + at.own());
  // Queries before the first key see none of a causal sentence's keys.
  for (int first = arguments.causal ? first_key / at.room() * at.room() : 0; first < at.queries; first += at.room()) {
    const int queries = min(at.room(), at.queries - first);
    load_queries(tiles, tensors, arguments, at, first);
    find_means(tiles);
    __syncthreads();
    for (int row = 0; row < queries; row += group_rows) {
      if (group.seen(first + row + group_rows - 1)) group.add(row, first + row);
    }
    __syncthreads();
    if (!all_keys) continue;
    query_gradients(tiles, arguments, at, first);
    __syncthreads();
    store_query_gradients(tiles, tensors, at, first);
    __syncthreads();
  }
  commit_copies();  // of keys and values, where there are no queries
  wait_copies<0>();
  __syncthreads();
  const int own = min(group_rows, count - at.own()), tile_row = at.tile_row();
  if (own <= 0 || at.slot() >= at.heads) return;
  group.finish(arguments.scale);
  const std::int64_t token = at.first_key + static_cast<std::int64_t>(first_key) + at.own();
  store_rows<width>(tiles.keys + tile_row * tile_stride(width), tensors.dk, token, own, at, at.slot());
  store_rows<width>(tiles.values + tile_row * tile_stride(width), tensors.dv, token, own, at, at.slot());
}

/// 16 queries of a head, those of one warp, which gathers their dq over all keys. Lanes as in the forward.
template <int width>
class QueryGradients {
 public:
  /// `first`: the warp's first query in the sentence; its tiles are loaded.
  __device__ QueryGradients(const TileArguments& arguments, const TileRange& at, const BackwardTiles<width>& tiles,
                            int first)
      : tiles_(tiles),
        causal_(arguments.causal),
        keys_(at.keys),
        query_(first + static_cast<int>(threadIdx.x) % warp_lanes / 4),
        tile_row_(at.own() + static_cast<int>(threadIdx.x) % warp_lanes / 4),
        factor_(arguments.scale * log2_e),
        survivors_scale_(arguments.key.scale()),
        threshold_(arguments.key.threshold()) {
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4(of_queries_[c], block_down(tiles.queries, stride, at.own(), c * 16));
      load_matrix_x4(of_dout_[c], block_down(tiles.dout, stride, at.own(), c * 16));
    }
  }

  /// Adds the part of 16 keys: those from row `row` of the tile, which is key `key` of the sentence.
  __device__ void add(int row, int key) {
    float scores[2][4] = {}, gradients[2][4] = {};
    unsigned a[4], b[4];
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4(b, block_across(tiles_.keys, stride, row, c * 16));
      multiply_block(scores[0], scores[1], of_queries_[c], b);
      load_matrix_x4(b, block_across(tiles_.values, stride, row, c * 16));
      multiply_block(gradients[0], gradients[1], of_dout_[c], b);
    }
    const int column = key + static_cast<int>(threadIdx.x) % 4 * 2;
    soften(scores[0], gradients[0], column);
    soften(scores[1], gradients[1], column + 8);
    pack_block(a, gradients[0], gradients[1]);
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4_transposed(b, block_down(tiles_.keys, stride, row, c * 16));
      multiply_block(sums_[2 * c], sums_[2 * c + 1], a, b);
    }
  }

  /// Puts the sums to rows of a tile.
  __device__ void finish(bfloat* rows, float scale) {
    put_sums(sums_, scale, scale, rows, stride);
    __syncwarp();
  }

 private:
  static constexpr int stride = tile_stride(width);

  /// For two queries and two keys, from `column` on: turns gradients of probabilities into gradients of scores.
  __device__ void soften(const float (&scores)[4], float (&gradients)[4], int column) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int place = tile_row_ + half * 8, query = query_ + half * 8;
      const unsigned bits = threshold_ > 0 ? pair_bits(tiles_.row_keys[place], column / 2) : 0xffffffffU;
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const bool visible = column + e < keys_ && (!causal_ || column + e <= query);
        const bool kept = (e == 0 ? bits & 0xffffU : bits >> 16) >= threshold_;
        const float power = exp2_approx(scores[half * 2 + e] * factor_ - tiles_.log_sums[place]);
        const float gradient = gradients[half * 2 + e] * (kept ? survivors_scale_ : 0.0f);
        gradients[half * 2 + e] = visible ? power * (gradient - tiles_.means[place]) : 0.0f;
      }
    }
  }

  const BackwardTiles<width>& tiles_;
  bool causal_;
  int keys_, query_, tile_row_;
  float factor_, survivors_scale_;
  unsigned threshold_;
  unsigned of_queries_[width / 16][4], of_dout_[width / 16][4];
  float sums_[width / 8][4] = {};
};

/// A block with the queries from `first_query` on of one head: dq, over tiles of keys.
template <int width>
__device__ void take_queries(const BackwardTiles<width>& tiles, const BackwardTensors& tensors,
                             const TileArguments& arguments, const TileRange& at, int first_query) {
  const int queries = min(at.room(), at.queries - first_query), query = first_query + at.own();
  const bool active = at.own() < queries;
  const int seen = arguments.causal ? min(at.keys, first_query + queries) : at.keys;  // by any query of the block
  const int reach = !active ? 0 : arguments.causal ? min(at.keys, query + group_rows) : at.keys;
  load_queries(tiles, tensors, arguments, at, first_query);
  find_means(tiles);
  __syncthreads();
  QueryGradients<width> group(arguments, at, tiles, query);
  for (int first = 0; first < seen; first += at.room()) {
    const int count = min(at.room(), seen - first);
    __syncthreads();
    load_keys(tiles, tensors, at, first, count);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    for (int row = 0; row < count && first + row < reach; row += group_rows) group.add(row, first + row);
  }
  if (active) group.finish(tiles.out + at.own() * tile_stride(width), arguments.scale);
  __syncwarp();
  store_query_gradients(tiles, tensors, at, first_query);
}

/// Blocks of a multiprocessor at the same time, which bounds the registers of a thread: 64 K are for all.
constexpr int backward_blocks(int width) {
  return width <= 64 ? 4 : 2;
}

template <int width>
__global__ void __launch_bounds__(tile_threads, backward_blocks(width))
    tile_backward_kernel(TileArguments arguments, BackwardTensors tensors) {
  await_earlier_kernels();
  const TileRange at(arguments, true);
  if (at.empty) return;
  const BackwardTiles<width> tiles(at.room());
  if (at.tile % 2 == 0) {
    take_keys(tiles, tensors, arguments, at, at.tile / 2 * tile_rows);
  } else {
    take_queries(tiles, tensors, arguments, at, at.tile / 2 * tile_rows);
  }
}

}  // namespace

void run_tiles(const AttentionBackward& op, CudaContext& context) {
  const TilePlan& plan = context.tile_plans().backward(host_list(op.q_offsets), host_list(op.k_offsets), op.heads,
                                                       context.values().active());
  if (plan.items == 0) return;
  const BackwardTensors tensors{.q = packed(op.q),
                                .k = packed(op.k),
                                .v = packed(op.v),
                                .out = packed(op.out),
                                .dout = packed(op.dout),
                                .dq = packed(op.dq),
                                .dk = packed(op.dk),
                                .dv = packed(op.dv),
                                .log_sum_exp = op.log_sum_exp.as<float>()};
  with_tile_width(op.q.shape[1] / op.heads, [&](auto width) {
    launch(op.name,
           {.grid = dim3(static_cast<unsigned>(plan.items)),
            .block = dim3(tile_threads),
            .stream = context.stream(),
            .shared_bytes = BackwardTiles<width>::bytes},
           tile_backward_kernel<width>, tile_arguments(op, plan, context), tensors);
  });
}

}  // namespace babelring::cuda
