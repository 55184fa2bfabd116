#include <limits>

#include "nmt/ops/cpu/attention_amx.h"
#include "nmt/ops/cpu/attention_kernels.h"
#include "nmt/ops/cpu/attention_tile.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")

namespace babelring::cpu {

namespace {

struct Scratch : ScratchPlan {
  Scratch(std::int64_t longest, std::int64_t width) {
    const std::int64_t row_bytes = blocks(width, 32) * 64, key_rows = blocks(longest, 32) * 32;
    const std::int64_t key_tile = key_rows * row_bytes, query_tile = block_queries * row_bytes;
    keys = take(key_tile), values = take(key_tile), key_pairs = take(key_tile);
    dk = take(2 * key_tile), dv = take(2 * key_tile);
    ragged_queries = take(query_tile), ragged_dout = take(query_tile);
    queries = take(query_tile), query_pairs = take(query_tile), dout = take(query_tile), dout_pairs = take(query_tile);
    scores = take(key_rows * block_stride), dscores = take(key_rows * block_stride);
    probabilities = take(key_rows * 64), gradients = take(key_rows * 64);
    words = take(key_rows * 64), turned = take(key_rows * 64), dq = take(2 * query_tile);
  }
  std::int64_t keys, values, key_pairs, dk, dv, ragged_queries, ragged_dout, queries, query_pairs, dout, dout_pairs;
  std::int64_t scores, dscores;           // f32 [keys, 32 queries]
  std::int64_t probabilities, gradients;  // bf16 [keys, 32 queries]: after dropout; of the scores
  std::int64_t words, turned, dq;
};

struct Task : HeadTask {
  Task(const AttentionBackward& backward, std::int64_t index, std::byte* thread_memory, const Scratch& places)
      : HeadTask(backward, index, thread_memory), op(backward), at(places) {}
  const AttentionBackward& op;
  const Scratch& at;
};

/// Probabilities p again, and with x = dropped-out p * dp the gradients ds = x - p * sum of x. Survivors' scale is left
/// to the products' results. (The sum is the dot product of dout and out, found without reading out.)
template <int strips, bool drops>
class BlockGradient {
 public:
  BlockGradient(const Task& task, const QueryBlock& block)
      : block_(block),
        dropout_{DropoutLanes(task.key, task.first_query + block.first),
                 DropoutLanes(task.key, task.first_query + block.first + 16)},
        scale_(_mm512_set1_ps(task.op.scale * 1.44269504f)),
        scores_(task.floats(task.at.scores)),
        dscores_(task.floats(task.at.dscores)),
        probabilities_(task.memory + task.at.probabilities),
        gradients_(task.memory + task.at.gradients),
        words_(task.memory + task.at.words) {
    alignas(64) std::array<float, block_queries> sums;
    sums.fill(std::numeric_limits<float>::infinity());  // makes p 0 where there is no query
    const float* from = task.op.log_sum_exp.as<float>() + (task.first_query + block.first) * task.op.heads + task.head;
    for (std::int64_t i = 0; i < block.count; ++i) sums[static_cast<std::size_t>(i)] = from[i * task.op.heads];
    for (int s = 0; s < strips; ++s) {
      log_sum_[s] = _mm512_mul_ps(_mm512_load_ps(sums.data() + 16 * s), _mm512_set1_ps(1.44269504f));
      sum_[s] = _mm512_setzero_ps();
    }
  }

  void run() {
    const std::int64_t pairs = blocks(block_.reach, 2), padded_pairs = blocks(block_.reach, 32) * 16;
    std::int64_t pair = 0;
    for (; pair < block_.clear / 2; ++pair) recompute<false>(pair);
    for (; pair < pairs; ++pair) recompute<true>(pair);
    for (pair = 0; pair < pairs; ++pair) differentiate(pair);
    const __m512i zero = _mm512_setzero_si512();
    for (; pair < padded_pairs; ++pair) {
      store_pair(zero, zero, pair, words_);
      for (const std::int64_t key : {2 * pair, 2 * pair + 1}) {
        _mm512_store_si512(probabilities_ + key * 64, zero);
        _mm512_store_si512(gradients_ + key * 64, zero);
      }
    }
  }

 private:
  static float* lanes(float* values, std::int64_t key, int strip) { return values + key * block_queries + 16 * strip; }

  template <bool masked>
  void recompute(std::int64_t pair) {
    __m512 even[2] = {}, odd[2] = {};
    for (int s = 0; s < strips; ++s) {
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
  __m512 probability(std::int64_t key, int strip) {
    float* at = lanes(scores_, key, strip);
    __m512 p = exponential2(_mm512_fmsub_ps(_mm512_load_ps(at), scale_, log_sum_[strip]));
    if constexpr (masked) p = _mm512_maskz_mov_ps(block_.seeing(key, strip), p);
    _mm512_store_ps(at, p);
    return p;
  }
  void weigh(std::int64_t key, int strip, __m512 dropped) {
    float* at = lanes(dscores_, key, strip);
    const __m512 x = _mm512_mul_ps(dropped, _mm512_load_ps(at));
    sum_[strip] = _mm512_add_ps(sum_[strip], x);
    _mm512_store_ps(at, x);
  }

  void differentiate(std::int64_t pair) {
    const __m512i even = gradient(2 * pair), odd = gradient(2 * pair + 1);
    _mm512_store_si512(gradients_ + 2 * pair * 64, even);
    _mm512_store_si512(gradients_ + (2 * pair + 1) * 64, odd);
    store_pair(even, odd, pair, words_);
  }
  __m512i gradient(std::int64_t key) const {
    __m512 ds[2] = {};
    for (int s = 0; s < strips; ++s) {
      ds[s] =
          _mm512_fnmadd_ps(_mm512_load_ps(lanes(scores_, key, s)), sum_[s], _mm512_load_ps(lanes(dscores_, key, s)));
    }
    return to_bf16(ds[0], ds[1]);
  }

  const QueryBlock& block_;
  DropoutLanes dropout_[2];
  __m512 scale_, log_sum_[strips], sum_[strips];
  float *scores_, *dscores_;
  std::byte *probabilities_, *gradients_, *words_;
};

template <int strips>
void differentiate_scores(const Task& task, const QueryBlock& block) {
  if (task.key.threshold() > 0) {
    BlockGradient<strips, true>(task, block).run();
  } else {
    BlockGradient<strips, false>(task, block).run();
  }
}

void multiply_scores(const Task& task, const QueryBlock& block) {
  const Scratch& at = task.at;
  std::byte* memory = task.memory;
  const std::int64_t depth = task.row_bytes / 64, strips = blocks(block.count, 16), rows = blocks(block.reach, 16);
  const std::int64_t row = task.first_query + block.first;
  const Rows queries = task.whole_rows(task.op.q, row, block.count, at.ragged_queries);
  const Rows dout = task.whole_rows(task.op.dout, row, block.count, at.ragged_dout);
  pack_transposed(queries, strips, depth, memory + at.queries);
  pack_transposed(dout, strips, depth, memory + at.dout);
  pack_pairs(queries, 2 * depth, 1, memory + at.query_pairs);
  pack_pairs(dout, 2 * depth, 1, memory + at.dout_pairs);
  const std::int64_t down = strips * tile_bytes, below = 16 * task.row_bytes;
  multiply(rows, strips, depth, {memory + at.keys, task.row_bytes, below, 64},
           {memory + at.queries, 64, down, tile_bytes}, task.floats(at.scores), block_stride);
  multiply(rows, strips, depth, {memory + at.values, task.row_bytes, below, 64},
           {memory + at.dout, 64, down, tile_bytes}, task.floats(at.dscores), block_stride);
}

/// `accumulate`: dk and dv hold other blocks' parts.
void block_backward(const Task& task, const QueryBlock& block, bool accumulate) {
  const Scratch& at = task.at;
  std::byte* memory = task.memory;
  const std::int64_t columns = task.row_bytes / 32, rows = blocks(block.reach, 16), chunks = blocks(block.reach, 32);
  multiply_scores(task, block);
  block.count > 16 ? differentiate_scores<2>(task, block) : differentiate_scores<1>(task, block);
  const std::int64_t down = columns * tile_bytes, stride = 2 * task.row_bytes;
  multiply(rows, columns, 1, {memory + at.probabilities, 64, tile_bytes, 0},
           {memory + at.dout_pairs, 64, down, tile_bytes}, task.floats(at.dv), stride, accumulate);
  multiply(rows, columns, 1, {memory + at.gradients, 64, tile_bytes, 0},
           {memory + at.query_pairs, 64, down, tile_bytes}, task.floats(at.dk), stride, accumulate);
  transpose_pairs(memory + at.words, chunks, memory + at.turned);
  multiply(2, columns, chunks, {memory + at.turned, 64, tile_bytes, 2 * tile_bytes},
           {memory + at.key_pairs, 64, down, tile_bytes}, task.floats(at.dq), stride);
  const float factor = task.op.scale * task.key.scale();
  for (std::int64_t i = 0; i < block.count; ++i) {
    const float* from = task.floats(at.dq) + block_row(i) * 16 * columns;
    store_row(from, factor, task.width, task.row(task.op.dq, task.first_query + block.first + i));
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
             task.memory + at.key_pairs);
  // The last block sees all keys, so it may be the one that overwrites dk and dv.
  const std::int64_t last = (task.queries - 1) / block_queries * block_queries;
  for (std::int64_t first = last; first >= 0; first -= block_queries) {
    block_backward(task, QueryBlock(first, task.queries, task.keys, op.causal), first != last);
  }
  const float scale = task.key.scale();
  const std::int64_t floats = task.row_bytes / 2;
  for (std::int64_t i = 0; i < task.keys; ++i) {
    store_row(task.floats(at.dk) + i * floats, op.scale * scale, task.width, task.row(op.dk, task.first_key + i));
    store_row(task.floats(at.dv) + i * floats, scale, task.width, task.row(op.dv, task.first_key + i));
  }
}

}  // namespace

void run_tiles(const AttentionBackward& op, Workspace& workspace) {
  const std::int64_t tasks = (op.q_offsets.shape[0] - 1) * op.heads;
  const Scratch at(longest(op.k_offsets), op.q.shape[1] / op.heads);
  const auto scratch = workspace.per_thread(at.floats());
#pragma omp parallel num_threads(workspace.threads_for(2 * op.q.shape.elements()))
  {
    const TileConfiguration tiles;
    auto* memory = reinterpret_cast<std::byte*>(scratch.of_this_thread());
#pragma omp for schedule(dynamic)
    for (std::int64_t task = 0; task < tasks; ++task) backward(Task(op, task, memory, at));
  }
}

}  // namespace babelring::cpu

#pragma GCC pop_options
