#include "nmt/ops/cuda/tile_attention.h"

#include <algorithm>

#include "nmt/ops/cuda/fast_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/tile_attention.cuh"

namespace babelring::cuda {
namespace {

constexpr float log_2 = 0.6931471805599453f;
constexpr int tiles_of_keys = 2;  // of keys and of values in shared memory at a time

/// 16 queries of a head, those of one warp. A lane has rows r = lane / 4 and r + 8 of the matmul results.
template <int width>
class QueryGroup {
 public:
  /// `row`: of the sentence, the warp's first.
  __device__ QueryGroup(const TileArguments& arguments, const TileRange& at, int row)
      : causal_(arguments.causal),
        keys_(at.keys),
        row_(row + static_cast<int>(threadIdx.x) % warp_lanes / 4),
        factor_(arguments.scale * log2_e),
        threshold_(arguments.key.threshold()) {
    if (threshold_ == 0) return;
    const DropoutKey key = key_of_head(arguments.key, at.first_head + at.slot());
    row_keys_[0] = key.row_key(at.first_query + row_), row_keys_[1] = key.row_key(at.first_query + row_ + 8);
  }

  /// `rows`: the warp's 16 rows of the tile.
  __device__ void load_queries(const bfloat* rows) {
#pragma unroll
    for (int c = 0; c < width / 16; ++c) load_matrix_x4(queries_[c], block_down(rows, stride, 0, c * 16));
  }

  /// On with the next `count` keys, 16 or 32, the first of which is `first` in the sentence. Keys beyond the sentence
  /// weigh nothing, but their values are numbers.
  template <int count>
  __device__ void attend(const bfloat* keys, const bfloat* values, int first) {
    float scores[count / 8][4] = {};
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
#pragma unroll
      for (int n = 0; n < count / 16; ++n) {
        unsigned b[4];
        load_matrix_x4(b, block_across(keys, stride, n * 16, c * 16));
        multiply_block(scores[2 * n], scores[2 * n + 1], queries_[c], b);
      }
    }
    const int first_column = first + static_cast<int>(threadIdx.x) % 4 * 2;
    mask(scores, first_column);
    weigh(scores);
    if (threshold_ > 0) drop(scores, first_column);
#pragma unroll
    for (int n = 0; n < count / 16; ++n) {
      unsigned weights[4], b[4];
      pack_block(weights, scores[2 * n], scores[2 * n + 1]);
#pragma unroll
      for (int c = 0; c < width / 16; ++c) {
        load_matrix_x4_transposed(b, block_down(values, stride, n * 16, c * 16));
        multiply_block(sums_[2 * c], sums_[2 * c + 1], weights, b);
      }
    }
  }

  /// Writes the results of the queries to the warp's rows of a tile, and their log sum exp to memory.
  __device__ void finish(bfloat* rows, float* log_sum_exp, const TileArguments& arguments, const TileRange& at) {
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total_[half] += __shfl_xor_sync(all_lanes, total_[half], 1);
      total_[half] += __shfl_xor_sync(all_lanes, total_[half], 2);
      factors[half] = keys_ > 0 ? arguments.key.scale() / total_[half] : 0.0f;
      const int row = row_ + half * 8;
      if (threadIdx.x % 4 == 0 && row < at.queries) {
        log_sum_exp[(at.first_query + static_cast<std::int64_t>(row)) * arguments.heads + at.first_head + at.slot()] =
            keys_ > 0 ? (largest_[half] + log2f(total_[half])) * log_2 : -INFINITY;
      }
    }
    __syncwarp();
    put_sums(sums_, factors[0], factors[1], rows, stride);
    __syncwarp();
  }

 private:
  static constexpr int stride = tile_stride(width);

  /// Dot products to scores in units of log 2, -infinity where a query does not see a key.
  template <int blocks>
  __device__ void mask(float (&scores)[blocks][4], int first_column) const {
#pragma unroll
    for (int n = 0; n < blocks; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = first_column + n * 8 + e % 2, row = row_ + e / 2 * 8;
        const bool visible = column < keys_ && (!causal_ || column <= row);
        scores[n][e] = visible ? scores[n][e] * factor_ : -INFINITY;
      }
    }
  }

  /// Scores to weights relative to the largest score so far; sums under an earlier one are scaled down.
  template <int blocks>
  __device__ void weigh(float (&scores)[blocks][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = largest_[half];
#pragma unroll
      for (int n = 0; n < blocks; ++n) {
        now = fmaxf(now, fmaxf(scores[n][half * 2], scores[n][half * 2 + 1]));
      }
      now = fmaxf(now, __shfl_xor_sync(all_lanes, now, 1));
      now = fmaxf(now, __shfl_xor_sync(all_lanes, now, 2));
      const float shrink = exp2_approx(largest_[half] - now);
      largest_[half] = now;
      total_[half] *= shrink;
#pragma unroll
      for (int n = 0; n < width / 8; ++n) sums_[n][half * 2] *= shrink, sums_[n][half * 2 + 1] *= shrink;
#pragma unroll
      for (int n = 0; n < blocks; ++n) {
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          scores[n][e] = exp2_approx(scores[n][e] - now);
          total_[half] += scores[n][e];
        }
      }
    }
  }

  template <int blocks>
  __device__ void drop(float (&weights)[blocks][4], int first_column) const {
#pragma unroll
    for (int n = 0; n < blocks; ++n) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned bits = pair_bits(row_keys_[half], (first_column + n * 8) / 2);
        if ((bits & 0xffffU) < threshold_) weights[n][half * 2] = 0;
        if ((bits >> 16) < threshold_) weights[n][half * 2 + 1] = 0;
      }
    }
  }

  bool causal_;
  int keys_, row_;
  float factor_;
  unsigned threshold_, row_keys_[2] = {};
  unsigned queries_[width / 16][4];
  float sums_[width / 8][4] = {}, largest_[2] = {-INFINITY, -INFINITY}, total_[2] = {};
};

/// Blocks of a multiprocessor at the same time, which bounds the registers of a thread: 64 K are for all.
constexpr int forward_blocks(int width) {
  return width <= 32 ? 5 : width <= 64 ? 4 : 2;
}

template <int width>
__global__ void __launch_bounds__(tile_threads, forward_blocks(width))
    tile_forward_kernel(TileArguments arguments, PackedTensor<const bfloat> q, PackedTensor<const bfloat> k,
                        PackedTensor<const bfloat> v, PackedTensor<bfloat> out, float* log_sum_exp) {
  await_earlier_kernels();
  constexpr int stride = tile_stride(width);
  const TileRange at(arguments, false);
  if (at.empty) return;
  auto* query_tiles = dynamic_shared<bfloat>();
  bfloat *key_tiles = query_tiles + tile_rows * stride, *value_tiles = key_tiles + tiles_of_keys * tile_rows * stride;
  const int first_row = at.tile * tile_rows, queries = min(at.room(), at.queries - first_row);
  const int seen = arguments.causal ? min(at.keys, first_row + queries) : at.keys;  // by any query of the block
  const int row = first_row + at.own(), key_room = tiles_of_keys * at.room();
  const bool active = at.own() < queries && at.slot() < at.heads;
  const int reach = !active ? 0 : arguments.causal ? min(at.keys, row + group_rows) : at.keys;
  load_tiles<width>(query_tiles, at.room(), round_up(queries, group_rows), q, at.first_query + first_row, queries, at);
  QueryGroup<width> group(arguments, at, row);
  bfloat* own = query_tiles + (at.tile_row()) * stride;
  for (int first = 0; first == 0 || first < seen; first += key_room) {  // once without keys, to wait for the queries
    const int count = min(key_room, seen - first);
    if (first > 0) __syncthreads();
    load_tiles<width>(key_tiles, key_room, round_up(count, 16), k, at.first_key + first, count, at);
    load_tiles<width>(value_tiles, key_room, round_up(count, 16), v, at.first_key + first, count, at);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    if (active && first == 0) group.load_queries(own);
    const int end = min(count, reach - first);
    for (int step = 0; step < end; step += 32) {
      const int place = (at.slot() * key_room + step) * stride;
      if (end - step > 16) {
        group.template attend<32>(key_tiles + place, value_tiles + place, first + step);
      } else {
        group.template attend<16>(key_tiles + place, value_tiles + place, first + step);
      }
    }
  }
  if (!active) return;
  group.finish(own, log_sum_exp, arguments, at);
  store_rows<width>(own, out, at.first_query + static_cast<std::int64_t>(row), min(group_rows, queries - at.own()), at,
                    at.slot());
}

/// Rows can be read and written 16 bytes at a time.
template <class Op>
bool fits(const Op& op, std::initializer_list<ConstTensor> tensors) {
  const std::int64_t head_width = op.q.shape[1] / op.heads;
  if (op.q.dtype != DType::bf16 || head_width % 8 != 0 || head_width > 128) return false;
  return std::all_of(tensors.begin(), tensors.end(), [](const ConstTensor& tensor) {
    return reinterpret_cast<std::uintptr_t>(tensor.data) % 16 == 0 && tensor.row_stride % 8 == 0;
  });
}

}  // namespace

bool fits_tile_attention(const AttentionForward& op) {
  return fits(op, {op.q, op.k, op.v, op.out});
}
bool fits_tile_attention(const AttentionBackward& op) {
  return fits(op, {op.q, op.k, op.v, op.out, op.dout, op.dq, op.dk, op.dv});
}

void run_tiles(const AttentionForward& op, CudaContext& context) {
  const TilePlan& plan = context.tile_plans().forward(host_list(op.q_offsets), host_list(op.k_offsets), op.heads,
                                                      context.values().active());
  if (plan.items == 0) return;
  with_tile_width(op.q.shape[1] / op.heads, [&](auto width) {
    constexpr int rows = (1 + 2 * tiles_of_keys) * tile_rows;
    const LaunchShape place{.grid = dim3(static_cast<unsigned>(plan.items)),
                            .block = dim3(tile_threads),
                            .stream = context.stream(),
                            .shared_bytes = static_cast<std::size_t>(rows * tile_stride(width)) * sizeof(bfloat)};
    launch(op.name, place, tile_forward_kernel<width>, tile_arguments(op, plan, context), packed(op.q), packed(op.k),
           packed(op.v), packed(op.out), op.log_sum_exp.as<float>());
  });
}

}  // namespace babelring::cuda
