#include "nmt/ops/cuda/short_attention.h"

#include <algorithm>

#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/short_attention.cuh"

namespace babelring::cuda {

namespace {

constexpr float log_2 = 0.6931471805599453f;
constexpr int max_loaded_keys = 64;  // keys and values in shared memory at a time

int loaded_keys(int rows) {
  return std::min(rows, max_loaded_keys);
}

/// 16 queries of a head, those of one warp, with key_step keys between two looks at the largest score: 32, or 16 in the
/// smallest room, which has no more. A lane has rows r = lane / 4 and r + 8 of the matmul results.
template <int width, int key_step>
class QueryGroup {
 public:
  __device__ QueryGroup(const ShortShape& shape, const ShortPlace& place, int first_query)
      : causal_(shape.causal),
        keys_(place.keys),
        row_(first_query + threadIdx.x % warp_lanes / 4),
        factor_(shape.scale * log2_e),
        threshold_(shape.key.threshold()) {
    if (threshold_ == 0) return;
    const DropoutKey key = key_of_head(shape.key, place.head);
    row_keys_[0] = key.row_key(place.first_query + row_), row_keys_[1] = key.row_key(place.first_query + row_ + 8);
  }

  /// From the warp's own rows of the tile.
  __device__ void load_queries(const bfloat* rows) {
#pragma unroll
    for (int c = 0; c < width / 16; ++c) load_matrix_x4(queries_[c], block_down(rows, stride, 0, c * 16));
  }

  /// On with the next key_step keys, the first of which is `first` in the sentence. Keys beyond the sentence weigh
  /// nothing, but their values are numbers.
  __device__ void attend(const bfloat* keys, const bfloat* values, int first) {
    float scores[key_step / 8][4] = {};
#pragma unroll
    for (int c = 0; c < width / 16; ++c) {
#pragma unroll
      for (int n = 0; n < key_step / 16; ++n) {
        unsigned b[4];
        load_matrix_x4(b, block_across(keys, stride, n * 16, c * 16));
        multiply_block(scores[2 * n], scores[2 * n + 1], queries_[c], b);
      }
    }
    const int first_column = first + threadIdx.x % 4 * 2;
    mask(scores, first_column);
    weigh(scores);
    if (threshold_ > 0) drop(scores, first_column);
#pragma unroll
    for (int n = 0; n < key_step / 16; ++n) {
      unsigned weights[4], b[4];
      pack_block(weights, scores[2 * n], scores[2 * n + 1]);
#pragma unroll
      for (int c = 0; c < width / 16; ++c) {
        load_matrix_x4_transposed(b, block_down(values, stride, n * 16, c * 16));
        multiply_block(sums_[2 * c], sums_[2 * c + 1], weights, b);
      }
    }
  }

  /// Puts what the queries get to the warp's rows of a tile, and their log sum exp to memory.
  __device__ void finish(bfloat* rows, float* log_sum_exp, const ShortPlace& place, int heads, float survivors_scale) {
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      total_[half] += __shfl_xor_sync(all_lanes, total_[half], 1);
      total_[half] += __shfl_xor_sync(all_lanes, total_[half], 2);
      factors[half] = keys_ > 0 ? survivors_scale / total_[half] : 0.0f;
      const int row = row_ + half * 8;
      if (threadIdx.x % 4 == 0 && row < place.queries) {
        log_sum_exp[(place.first_query + static_cast<std::int64_t>(row)) * heads + place.head] =
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
  __device__ void mask(float (&scores)[key_step / 8][4], int first_column) const {
#pragma unroll
    for (int n = 0; n < key_step / 8; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int column = first_column + n * 8 + e % 2, row = row_ + e / 2 * 8;
        const bool visible = column < keys_ && (!causal_ || column <= row);
        scores[n][e] = visible ? scores[n][e] * factor_ : -INFINITY;
      }
    }
  }

  /// Scores to weights relative to the largest score so far; sums under an earlier one are scaled down.
  __device__ void weigh(float (&scores)[key_step / 8][4]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now = largest_[half];
#pragma unroll
      for (int n = 0; n < key_step / 8; ++n) {
        now = fmaxf(now, fmaxf(scores[n][half * 2], scores[n][half * 2 + 1]));
      }
      now = fmaxf(now, __shfl_xor_sync(all_lanes, now, 1));
      now = fmaxf(now, __shfl_xor_sync(all_lanes, now, 2));
      const float shrink = exp2f(largest_[half] - now);
      largest_[half] = now;
      total_[half] *= shrink;
#pragma unroll
      for (int n = 0; n < width / 8; ++n) sums_[n][half * 2] *= shrink, sums_[n][half * 2 + 1] *= shrink;
#pragma unroll
      for (int n = 0; n < key_step / 8; ++n) {
        for (int e = half * 2; e < half * 2 + 2; ++e) {
          scores[n][e] = exp2f(scores[n][e] - now);
          total_[half] += scores[n][e];
        }
      }
    }
  }

  __device__ void drop(float (&weights)[key_step / 8][4], int first_column) const {
#pragma unroll
    for (int n = 0; n < key_step / 8; ++n) {
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

template <int width, int key_step>
__global__ void __launch_bounds__(max_tile_threads(width))
    short_forward_kernel(ShortShape shape, PackedTensor<const bfloat> q, PackedTensor<const bfloat> k,
                         PackedTensor<const bfloat> v, PackedTensor<bfloat> out, float* log_sum_exp) {
  constexpr int stride = tile_stride(width);
  const ShortPlace at(shape);
  if (at.queries <= shape.above || at.queries > shape.most) return;
  const int rows = blockDim.x / warp_lanes * group_rows, room = rows < max_loaded_keys ? rows : max_loaded_keys;
  auto* query_tile = dynamic_shared<bfloat>();
  bfloat *key_tile = query_tile + rows * stride, *value_tile = key_tile + room * stride;
  const int first_row = threadIdx.x / warp_lanes * group_rows;
  const bool active = first_row < at.queries;
  const int reach = !active ? 0 : shape.causal ? min(at.keys, first_row + group_rows) : at.keys;
  load_tile<width>(query_tile, round_up(at.queries, group_rows), at.query_rows(q, 0), q.stride, at.queries,
                   shape.head_width);
  QueryGroup<width, key_step> group(shape, at, first_row);
  for (int first = 0; first == 0 || first < at.keys; first += room) {  // once without keys, to wait for the queries
    const int count = min(room, at.keys - first);
    if (first > 0) __syncthreads();
    load_tile<width>(key_tile, round_up(count, key_step), at.key_rows(k, first), k.stride, count, shape.head_width);
    load_tile<width>(value_tile, round_up(count, key_step), at.key_rows(v, first), v.stride, count, shape.head_width);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    if (active && first == 0) group.load_queries(query_tile + first_row * stride);
    for (int step = 0; step < count && first + step < reach; step += key_step) {
      group.attend(key_tile + step * stride, value_tile + step * stride, first + step);
    }
  }
  if (!active) return;
  bfloat* own = query_tile + first_row * stride;
  group.finish(own, log_sum_exp, at, shape.heads, shape.key.scale());
  store_tile<width>(own, at.query_rows(out, first_row), out.stride, min(group_rows, at.queries - first_row),
                    shape.head_width, threadIdx.x % warp_lanes, warp_lanes);
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

bool fits_short_attention(const AttentionForward& op) {
  return fits(op, {op.q, op.k, op.v, op.out});
}
bool fits_short_attention(const AttentionBackward& op) {
  return fits(op, {op.q, op.k, op.v, op.out, op.dout, op.dq, op.dk, op.dv});
}

void run_short(const AttentionForward& op, std::span<const ShortLaunch> launches, CudaContext& context) {
  const auto blocks = static_cast<unsigned>((op.q_offsets.shape[0] - 1) * op.heads);
  for (const ShortLaunch& each : launches) {
    const int groups = round_up(each.most, group_rows) / group_rows, rows = groups * group_rows;
    with_tile_width(op.q.shape[1] / op.heads, [&](auto width) {
      const int tile_rows = rows + 2 * loaded_keys(rows);
      const LaunchPlace place{
          .grid = dim3(blocks),
          .block = dim3(static_cast<unsigned>(groups * warp_lanes)),
          .stream = context.stream(),
          .shared_bytes = static_cast<std::size_t>(tile_rows * tile_stride(width)) * sizeof(bfloat)};
      const auto kernel = rows < 32 ? short_forward_kernel<width, 16> : short_forward_kernel<width, 32>;
      launch(op.name, place, kernel, short_shape(op, each, context), packed(op.q), packed(op.k), packed(op.v),
             packed(op.out), op.log_sum_exp.as<float>());
    });
  }
}

}  // namespace babelring::cuda
