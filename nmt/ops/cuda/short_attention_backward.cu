#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/short_attention.cuh"
#include "nmt/ops/cuda/short_attention.h"

namespace babelring::cuda {

namespace {

constexpr int query_rows = 32;                // queries in shared memory at a time
constexpr int score_stride = query_rows + 8;  // of the gradients of scores: a row for each key

/// What a block has in shared memory. `rows` are keys, 16 for each warp.
template <int width>
struct BackwardTiles {
  static constexpr int stride = tile_stride(width);
  static constexpr std::size_t bytes(int rows) {
    return static_cast<std::size_t>((2 * rows + 3 * query_rows) * stride + rows * score_stride) * sizeof(bfloat) +
           query_rows * (2 * sizeof(float) + sizeof(unsigned));
  }
  __device__ explicit BackwardTiles(int rows) {
    keys = dynamic_shared<bfloat>();
    values = keys + rows * stride;
    queries = values + rows * stride;
    dout = queries + query_rows * stride;
    out = dout + query_rows * stride;
    dscores = out + query_rows * stride;
    log_sums = reinterpret_cast<float*>(dscores + rows * score_stride);
    means = log_sums + query_rows;
    row_keys = reinterpret_cast<unsigned*>(means + query_rows);
  }
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
  __device__ KeyGroup(const ShortShape& shape, const ShortPlace& place, const BackwardTiles<width>& tiles)
      : tiles_(tiles),
        causal_(shape.causal),
        keys_(place.keys),
        first_(threadIdx.x / warp_lanes * group_rows),
        factor_(shape.scale * log2_e),
        survivors_scale_(shape.key.scale()),
        threshold_(shape.key.threshold()) {}

  /// Whether any of the keys is seen by a query up to this.
  __device__ bool seen(int last_query) const { return first_ < keys_ && (!causal_ || first_ <= last_query); }

  /// Adds what 16 queries give: those from row `row` of the tile, which is query `query` of the sentence. Leaves the
  /// gradients of their scores in shared memory.
  __device__ void add(int row, int query) {
    float scores[2][4] = {}, gradients[2][4] = {};
    unsigned a[4], b[4];
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4(a, block_down(tiles_.keys, stride, first_, c * 16));
      load_matrix_x4(b, block_across(tiles_.queries, stride, row, c * 16));
      multiply_block(scores[0], scores[1], a, b);
      load_matrix_x4(a, block_down(tiles_.values, stride, first_, c * 16));
      load_matrix_x4(b, block_across(tiles_.dout, stride, row, c * 16));
      multiply_block(gradients[0], gradients[1], a, b);
    }
    soften(scores[0], gradients[0], row, query);
    soften(scores[1], gradients[1], row + 8, query + 8);
    unsigned dscores[4];
    pack_block(a, scores[0], scores[1]);
    pack_block(dscores, gradients[0], gradients[1]);
    put(dscores, row);
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
      load_matrix_x4_transposed(b, block_down(tiles_.dout, stride, row, c * 16));
      multiply_block(dv_[2 * c], dv_[2 * c + 1], a, b);
      load_matrix_x4_transposed(b, block_down(tiles_.queries, stride, row, c * 16));
      multiply_block(dk_[2 * c], dk_[2 * c + 1], dscores, b);
    }
  }

  /// Puts the sums to the warp's rows of the tiles of keys and values, which no warp reads any more.
  __device__ void finish(float scale) {
    put_sums(dk_, scale, scale, tiles_.keys + first_ * stride, stride);
    put_sums(dv_, 1.0f, 1.0f, tiles_.values + first_ * stride, stride);
    __syncwarp();
  }

 private:
  static constexpr int stride = tile_stride(width);

  /// Of two keys and two queries: dot products to probabilities after dropout, the gradients of these to those of
  /// scores.
  __device__ void soften(float (&scores)[4], float (&gradients)[4], int row, int query) const {
    const int lane = threadIdx.x % warp_lanes, column = lane % 4 * 2, key = first_ + lane / 4;
    unsigned kept[4] = {1, 1, 1, 1};
    if (threshold_ > 0) survivors(kept, row + column, key);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int of_query = column + e % 2, of_key = key + e / 2 * 8;
      const bool visible = of_key < keys_ && (!causal_ || of_key <= query + of_query);
      const float power = exp2f(scores[e] * factor_ - tiles_.log_sums[row + of_query]);
      const float probability = visible ? power : 0.0f, scale = kept[e] != 0 ? survivors_scale_ : 0.0f;
      scores[e] = probability * scale;
      gradients[e] = visible ? probability * (gradients[e] * scale - tiles_.means[row + of_query]) : 0.0f;
    }
  }

  /// Which of two keys' elements with two queries stay. Keys 2 i and 2 i + 1 share their random bits, and are in lanes
  /// four apart: each of the two makes them for one query.
  __device__ void survivors(unsigned (&kept)[4], int row, int key) const {
    const int odd = key % 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned own = pair_bits(tiles_.row_keys[row + odd], key / 2 + half * 4);
      const unsigned others = __shfl_xor_sync(all_lanes, own, 4);
      const unsigned of_first = odd ? others : own, of_second = odd ? own : others;
      kept[half * 2] = (odd ? of_first >> 16 : of_first & 0xffffU) >= threshold_;
      kept[half * 2 + 1] = (odd ? of_second >> 16 : of_second & 0xffffU) >= threshold_;
    }
  }

  __device__ void put(const unsigned (&dscores)[4], int row) const {
    const int lane = threadIdx.x % warp_lanes;
    bfloat* at = tiles_.dscores + (first_ + lane / 4) * score_stride + row + lane % 4 * 2;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      *reinterpret_cast<unsigned*>(at + e % 2 * 8 * score_stride + e / 2 * 8) = dscores[e];
    }
  }

  const BackwardTiles<width>& tiles_;
  bool causal_;
  int keys_, first_;
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

/// The mean of a query's gradients of probabilities is the dot product of its output and that one's gradient.
template <int width>
__device__ void find_means(const BackwardTiles<width>& tiles) {
  constexpr int pieces = width / 8;
  for (int i = threadIdx.x; i < query_rows * pieces; i += blockDim.x) {  // whole warps
    const int row = i / pieces, at = row * tile_stride(width) + i % pieces * 8;
    float sum = dot_piece(tiles.dout + at, tiles.out + at);
#pragma unroll
    for (int apart = pieces / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(all_lanes, sum, apart);
    if (i % pieces == 0) tiles.means[row] = sum;
  }
}

/// dq of the queries in shared memory, which are `first` and on in the sentence: blocks of 16 queries and 16 columns,
/// each by one warp, to the tile of `out`.
template <int width>
__device__ void query_gradients(const BackwardTiles<width>& tiles, const ShortShape& shape, const ShortPlace& at,
                                int first) {
  constexpr int stride = tile_stride(width);
  const int count = min(query_rows, at.queries - first), warps = blockDim.x / warp_lanes;
  for (int item = threadIdx.x / warp_lanes; item < 2 * (width / 16); item += warps) {
    const int row = item % 2 * 16, column = item / 2 * 16;
    if (row >= count) continue;
    const int reach = shape.causal ? min(at.keys, first + row + 16) : at.keys;
    float sums[2][4] = {};
    for (int key = 0; key < reach; key += 16) {
      unsigned a[4], b[4];
      load_matrix_x4_transposed(a, block_across(tiles.dscores, score_stride, key, row));
      load_matrix_x4_transposed(b, block_down(tiles.keys, stride, key, column));
      multiply_block(sums[0], sums[1], a, b);
    }
    put_sums(sums, shape.scale, shape.scale, tiles.out + row * stride + column, stride);
  }
}

struct BackwardTensors {
  PackedTensor<const bfloat> q, k, v, out, dout;
  PackedTensor<bfloat> dq, dk, dv;
  const float* log_sum_exp;
};

/// Starts to copy the tile of queries that begins with `first`, and waits for all copies of the block.
template <int width>
__device__ void load_queries(const BackwardTiles<width>& tiles, const BackwardTensors& of, const ShortShape& shape,
                             const ShortPlace& at, int first) {
  const int count = min(query_rows, at.queries - first);
  const auto load = [&](bfloat* tile, const PackedTensor<const bfloat>& from) {
    load_tile<width>(tile, query_rows, at.query_rows(from, first), from.stride, count, shape.head_width);
  };
  load(tiles.queries, of.q);
  load(tiles.dout, of.dout);
  load(tiles.out, of.out);
  commit_copies();
  if (threadIdx.x < query_rows) {
    const int row = threadIdx.x;
    const std::int64_t token = at.first_query + static_cast<std::int64_t>(first) + row;
    tiles.log_sums[row] = row < count ? of.log_sum_exp[token * shape.heads + at.head] * log2_e : INFINITY;
    tiles.row_keys[row] = key_of_head(shape.key, at.head).row_key(token);
  }
  wait_copies<0>();
  __syncthreads();
}

template <int width>
__global__ void __launch_bounds__(max_tile_threads(width)) short_backward_kernel(ShortShape shape, BackwardTensors of) {
  constexpr int stride = tile_stride(width);
  const ShortPlace at(shape);
  if (at.keys <= shape.above || at.keys > shape.most) return;
  const BackwardTiles<width> tiles(blockDim.x / warp_lanes * group_rows);
  const int room = round_up(at.keys, group_rows);
  load_tile<width>(tiles.keys, room, at.key_rows(of.k, 0), of.k.stride, at.keys, shape.head_width);
  load_tile<width>(tiles.values, room, at.key_rows(of.v, 0), of.v.stride, at.keys, shape.head_width);
  KeyGroup<width> group(shape, at, tiles);
  for (int first = 0; first < at.queries; first += query_rows) {
    const int count = min(query_rows, at.queries - first);
    load_queries(tiles, of, shape, at, first);
    find_means(tiles);
    __syncthreads();
    for (int row = 0; row < count; row += 16) {
      if (group.seen(first + row + 15)) group.add(row, first + row);
    }
    __syncthreads();
    query_gradients(tiles, shape, at, first);
    __syncthreads();
    store_tile<width>(tiles.out, at.query_rows(of.dq, first), of.dq.stride, count, shape.head_width, threadIdx.x,
                      blockDim.x);
    __syncthreads();
  }
  commit_copies();  // of keys and values, where there are no queries
  wait_copies<0>();
  __syncthreads();
  const int first_row = threadIdx.x / warp_lanes * group_rows, own = min(group_rows, at.keys - first_row);
  if (own <= 0) return;
  group.finish(shape.scale);
  const int lane = threadIdx.x % warp_lanes;
  store_tile<width>(tiles.keys + first_row * stride, at.key_rows(of.dk, first_row), of.dk.stride, own, shape.head_width,
                    lane, warp_lanes);
  store_tile<width>(tiles.values + first_row * stride, at.key_rows(of.dv, first_row), of.dv.stride, own,
                    shape.head_width, lane, warp_lanes);
}

}  // namespace

int max_short_rows(std::int64_t head_width) {
  int device = 0, shared_bytes = 0, rows = 0;
  require(cudaGetDevice(&device), "attention");
  require(cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "attention");
  with_tile_width(head_width, [&](auto width) {  // the backward wants more than the forward
    rows = max_tile_rows(width);
    while (BackwardTiles<width>::bytes(rows) > static_cast<std::size_t>(shared_bytes)) rows /= 2;
  });
  return rows;
}

void run_short(const AttentionBackward& op, std::span<const ShortLaunch> launches, CudaContext& context) {
  const auto blocks = static_cast<unsigned>((op.q_offsets.shape[0] - 1) * op.heads);
  const BackwardTensors tensors{.q = packed(op.q),
                                .k = packed(op.k),
                                .v = packed(op.v),
                                .out = packed(op.out),
                                .dout = packed(op.dout),
                                .dq = packed(op.dq),
                                .dk = packed(op.dk),
                                .dv = packed(op.dv),
                                .log_sum_exp = op.log_sum_exp.as<float>()};
  for (const ShortLaunch& each : launches) {
    const int groups = round_up(each.most, group_rows) / group_rows;
    with_tile_width(op.q.shape[1] / op.heads, [&](auto width) {
      launch(op.name,
             {.grid = dim3(blocks),
              .block = dim3(static_cast<unsigned>(groups * warp_lanes)),
              .stream = context.stream(),
              .shared_bytes = BackwardTiles<width>::bytes(groups * group_rows)},
             short_backward_kernel<width>, short_shape(op, each, context), tensors);
    });
  }
}

}  // namespace babelring::cuda
