#include <limits>

#include "nmt/ops/cpu/kernels/avx512_bf16/attention_amx.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

struct Scratch : ScratchPlan {
  Scratch(std::int64_t longest_q, std::int64_t longest_k, std::int64_t width)
      : key_rows(blocks(longest_k, 32) * 32), query_rows(blocks(longest_q, 32) * 32) {
    const std::int64_t row_bytes = blocks(width, 32) * 64;
    keys = take(key_rows * row_bytes), values = take(key_rows * row_bytes);
    pairs = take(std::max(key_rows, query_rows) * row_bytes), columns = take(block_queries * row_bytes);
    scores = take(key_rows * block_stride), dscores = take(key_rows * block_stride), packed_pairs = take(key_rows * 64);
    probabilities = take(key_rows * query_rows * 2), gradients = take(key_rows * query_rows * 2);
    if (width % 32 != 0) ragged = take(query_rows * row_bytes);
  }
  std::int64_t key_rows, query_rows;
  std::int64_t keys, values;                   // rows
  std::int64_t pairs;                          // of keys, then of dout, then of queries
  std::int64_t columns;                        // one block of queries, then of dout, transposed
  std::int64_t scores, dscores, packed_pairs;  // one block: f32 [keys, 32 queries], then of pairs of keys
  std::int64_t probabilities, gradients;       // bf16 [blocks, keys, 32 queries]: after dropout; of the scores
  std::int64_t ragged = 0;
};

struct Task : HeadTask {
  Task(const AttentionBackward& backward, std::int64_t index, std::byte* thread_memory, const Scratch& places,
       Prefetcher& next_task)
      : HeadTask(backward, index, thread_memory, next_task), op(backward), at(places) {}
  /// The block of probabilities or gradients at this query.
  std::byte* block_of(std::int64_t place, std::int64_t query) const {
    return memory + place + query / block_queries * at.key_rows * 64;
  }
  const AttentionBackward& op;
  const Scratch& at;
};

/// Probabilities p again, and with x = dropped-out p * dp the gradients ds = x - p * sum of x. Survivors' scale is left
/// to the matmuls' results. (The sum is the dot product of dout and out, found without reading out.)
template <int row_tiles, bool drops>
class BlockGradient {
 public:
  BlockGradient(const Task& task, const QueryBlock& block)
      : block_(block),
        dropout_{DropoutLanes(task.key, task.first_query + block.first),
                 DropoutLanes(task.key, task.first_query + block.first + 16)},
        scale_(_mm512_set1_ps(task.op.scale * 1.44269504f)),
        scores_(task.floats(task.at.scores)),
        dscores_(task.floats(task.at.dscores)),
        probabilities_(task.block_of(task.at.probabilities, block.first)),
        gradients_(task.block_of(task.at.gradients, block.first)),
        packed_pairs_(task.memory + task.at.packed_pairs),
        prefetcher_(task.prefetcher) {
    alignas(64) std::array<float, block_queries> sums;
    sums.fill(std::numeric_limits<float>::infinity());  // makes p 0 where there is no query
    const float* from = task.op.log_sum_exp.as<float>() + (task.first_query + block.first) * task.op.heads + task.head;
    for (std::int64_t i = 0; i < block.count; ++i) sums[static_cast<std::size_t>(i)] = from[i * task.op.heads];
    for (int s = 0; s < row_tiles; ++s) {
      log_sum_[s] = _mm512_mul_ps(_mm512_load_ps(sums.data() + 16 * s), _mm512_set1_ps(1.44269504f));
      sum_[s] = _mm512_setzero_ps();
    }
  }

  void run() {
    const std::int64_t pairs = blocks(block_.visible_end, 2), padded_pairs = blocks(block_.visible_end, 32) * 16;
    std::int64_t pair = 0;
    for (; pair < block_.unmasked_end / 2; ++pair) recompute<false>(pair);
    for (; pair < pairs; ++pair) recompute<true>(pair);
    for (pair = 0; pair < pairs; ++pair) differentiate(pair);
    const __m512i zero = _mm512_setzero_si512();
    for (; pair < padded_pairs; ++pair) {
      store_pair(zero, zero, pair, packed_pairs_);
      for (const std::int64_t key : {2 * pair, 2 * pair + 1}) {
        _mm512_store_si512(probabilities_ + key * 64, zero);
        _mm512_store_si512(gradients_ + key * 64, zero);
      }
    }
  }

 private:
  static float* lanes(float* values, std::int64_t key, int row_tile) {
    return values + key * block_queries + 16 * row_tile;
  }

  template <bool masked>
  void recompute(std::int64_t pair) {
    prefetcher_.advance(4);
    __m512 even[2] = {}, odd[2] = {};
    for (int s = 0; s < row_tiles; ++s) {
      even[s] = probability<masked>(2 * pair, s), odd[s] = probability<masked>(2 * pair + 1, s);
      if constexpr (drops) {
        const __m512i bits = dropout_[s].hash(pair);
        even[s] = _mm512_maskz_mov_ps(dropout_[s].keeps_even(bits), even[s]);
        odd[s] = _mm512_maskz_mov_ps(dropout_[s].keeps_odd(bits), odd[s]);
      }
      weigh(2 * pair, s, even[s]);
      weigh(2 * pair + 1, s, odd[s]);
    }
    _mm512_store_si512(probabilities_ + 2 * pair * 64, to_bf16(even[0], even[1]));
    _mm512_store_si512(probabilities_ + (2 * pair + 1) * 64, to_bf16(odd[0], odd[1]));
  }
  template <bool masked>
  __m512 probability(std::int64_t key, int row_tile) {
    float* at = lanes(scores_, key, row_tile);
    __m512 p = exponential2(_mm512_fmsub_ps(_mm512_load_ps(at), scale_, log_sum_[row_tile]));
    if constexpr (masked) p = _mm512_maskz_mov_ps(block_.seeing(key, row_tile), p);
    _mm512_store_ps(at, p);
    return p;
  }
  void weigh(std::int64_t key, int row_tile, __m512 dropped) {
    float* at = lanes(dscores_, key, row_tile);
    const __m512 x = _mm512_mul_ps(dropped, _mm512_load_ps(at));
    sum_[row_tile] = _mm512_add_ps(sum_[row_tile], x);
    _mm512_store_ps(at, x);
  }

  void differentiate(std::int64_t pair) {
    prefetcher_.advance(4);
    const __m512i even = gradient(2 * pair), odd = gradient(2 * pair + 1);
    _mm512_store_si512(gradients_ + 2 * pair * 64, even);
    _mm512_store_si512(gradients_ + (2 * pair + 1) * 64, odd);
    store_pair(even, odd, pair, packed_pairs_);
  }
  __m512i gradient(std::int64_t key) const {
    __m512 ds[2] = {};
    for (int s = 0; s < row_tiles; ++s) {
      ds[s] =
          _mm512_fnmadd_ps(_mm512_load_ps(lanes(scores_, key, s)), sum_[s], _mm512_load_ps(lanes(dscores_, key, s)));
    }
    return to_bf16(ds[0], ds[1]);
  }

  const QueryBlock& block_;
  DropoutLanes dropout_[2];
  __m512 scale_, log_sum_[row_tiles], sum_[row_tiles];
  float *scores_, *dscores_;
  std::byte *probabilities_, *gradients_, *packed_pairs_;
  Prefetcher& prefetcher_;
};

template <int row_tiles>
void differentiate_scores(const Task& task, const QueryBlock& block) {
  if (task.key.threshold() > 0) {
    BlockGradient<row_tiles, true>(task, block).run();
  } else {
    BlockGradient<row_tiles, false>(task, block).run();
  }
}

/// [keys, 32 queries] matmuls of rows of keys or values with one block of q or dout.
void multiply_columns(const Task& task, const QueryBlock& block, std::int64_t left, const ConstTensor& right,
                      std::int64_t to) {
  const Scratch& at = task.at;
  const std::int64_t depth = task.row_bytes / 64, row_tiles = blocks(block.count, 16);
  const Rows rows = task.whole_rows(right, task.first_query + block.first, block.count, at.ragged);
  pack_transposed(rows, row_tiles, depth, task.memory + at.columns);
  multiply(blocks(block.visible_end, 16), row_tiles, depth,
           {task.memory + left, task.row_bytes, 16 * task.row_bytes, 64},
           {task.memory + at.columns, 64, row_tiles * tile_bytes, tile_bytes}, task.floats(to), block_stride);
}

/// Probabilities and gradients of one block's scores, and its dq. `pairs` are of keys.
void block_backward(const Task& task, const QueryBlock& block) {
  const Scratch& at = task.at;
  const std::int64_t columns = task.row_bytes / 32, chunks = blocks(block.visible_end, 32);
  multiply_columns(task, block, at.keys, task.op.q, at.scores);
  multiply_columns(task, block, at.values, task.op.dout, at.dscores);
  block.count > 16 ? differentiate_scores<2>(task, block) : differentiate_scores<1>(task, block);
  transpose_pairs(task.memory + at.packed_pairs, chunks);
  std::array<float, block_queries> factors;
  factors.fill(task.op.scale * task.key.scale());
  multiply_to_rows({.columns = columns,
                    .depth = chunks,
                    .a = {task.memory + at.packed_pairs, 64, tile_bytes, 2 * tile_bytes},
                    .b = {task.memory + at.pairs, 64, columns * tile_bytes, tile_bytes},
                    .by_block_row = true,
                    .staging = task.floats(at.scores)},
                   task.prefetcher,
                   task.out_rows(task.op.dq, task.first_query + block.first, block.count, factors.data()));
}

/// dk or dv: the matmul over the queries of `left` (gradients or probabilities) and rows of q or dout.
void sum_over_queries(const Task& task, std::int64_t left, const ConstTensor& right, float factor, const Tensor& to) {
  const Scratch& at = task.at;
  const std::int64_t columns = task.row_bytes / 32, chunks = blocks(task.queries, 32);
  const Rows rows = task.whole_rows(right, task.first_query, task.queries, at.ragged);
  pack_pairs(rows, columns, chunks, task.memory + at.pairs);
  std::array<float, 32> factors;
  factors.fill(factor);
  const OutRows out = task.out_rows(to, task.first_key, task.keys, factors.data());
  for (std::int64_t key = 0; key < task.keys; key += 32) {
    const std::int64_t skipped = task.op.causal ? key / 32 : 0;  // blocks of queries before the key
    multiply_to_rows(
        {.columns = columns,
         .depth = chunks - skipped,
         .a = {task.block_of(left, skipped * 32) + key * 64, 64, tile_bytes, at.key_rows * 64},
         .b = {task.memory + at.pairs + skipped * columns * tile_bytes, 64, columns * tile_bytes, tile_bytes},
         .by_block_row = false,
         .staging = task.floats(at.scores),
         .first_row = key},
        task.prefetcher, out);
  }
}

void backward(const Task& task) {
  const AttentionBackward& op = task.op;
  const Scratch& at = task.at;
  if (task.keys == 0 || task.queries == 0) {
    task.clear(op.dq, task.first_query, task.queries);
    task.clear(op.dk, task.first_key, task.keys);
    task.clear(op.dv, task.first_key, task.keys);
    return;
  }
  const std::int64_t padded_keys = blocks(task.keys, 16) * 16, missing = task.row_bytes - 2 * task.width;
  pack_rows(task.rows(op.k, task.first_key, task.keys), padded_keys, task.row_bytes, missing, task.memory + at.keys);
  pack_rows(task.rows(op.v, task.first_key, task.keys), padded_keys, task.row_bytes, missing, task.memory + at.values);
  pack_pairs({task.memory + at.keys, task.row_bytes, task.keys}, task.row_bytes / 32, blocks(task.keys, 32),
             task.memory + at.pairs);
  for (std::int64_t first = 0; first < task.queries; first += block_queries) {
    block_backward(task, QueryBlock(first, task.queries, task.keys, op.causal));
  }
  const float scale = task.key.scale();
  sum_over_queries(task, at.probabilities, op.dout, scale, op.dv);
  sum_over_queries(task, at.gradients, op.q, op.scale * scale, op.dk);
}

/// Lets the next task's rows be fetched while this one is computed.
void prefetch(const Task& next) {
  const std::int64_t bytes = 2 * next.width;
  for (const ConstTensor& keys : {next.op.k, next.op.v})
    next.prefetcher.add(next.rows(keys, next.first_key, next.keys), bytes, false);
  for (const ConstTensor& queries : {next.op.q, next.op.dout})
    next.prefetcher.add(next.rows(queries, next.first_query, next.queries), bytes, false);
  next.prefetcher.add(next.rows(next.op.dq, next.first_query, next.queries), bytes, true);
  for (const Tensor& keys : {next.op.dv, next.op.dk})
    next.prefetcher.add(next.rows(keys, next.first_key, next.keys), bytes, true);
}

}  // namespace

void run_tiles(const AttentionBackward& op, CpuContext& context) {
  const Scratch at(longest(op.q_offsets), longest(op.k_offsets), op.q.shape[1] / op.heads);
  for_tasks<Task>(op, at, context, prefetch, backward);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
