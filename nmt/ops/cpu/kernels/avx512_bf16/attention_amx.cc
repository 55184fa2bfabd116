#include "nmt/ops/cpu/kernels/avx512_bf16/attention_amx.h"

#include <limits>

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

struct Scratch : ScratchPlan {
  Scratch(std::int64_t longest, std::int64_t width) {
    const std::int64_t row_bytes = blocks(width, 32) * 64, key_rows = blocks(longest, 32) * 32;
    keys = take(key_rows * row_bytes), value_pairs = take(key_rows * row_bytes);
    queries = take(block_queries * row_bytes), scores = take(key_rows * block_stride),
    packed_pairs = take(key_rows * 64);
    if (width % 32 != 0) ragged = take(std::max(key_rows, block_queries) * row_bytes);
  }
  std::int64_t keys, value_pairs, queries, scores, packed_pairs, ragged = 0;
};

/// Softmax over the keys of one block: words of unnormalised probabilities after dropout, the factors that normalise
/// them, and log sum exp.
template <int row_tiles, bool drops>
class BlockSoftmax {
 public:
  BlockSoftmax(const QueryBlock& block, const DropoutKey& key, std::int64_t row, float scale, const float* scores,
               std::byte* packed_pairs, Prefetcher& prefetcher)
      : block_(block),
        dropout_{DropoutLanes(key, row), DropoutLanes(key, row + 16)},
        scale_(_mm512_set1_ps(scale * 1.44269504f)),
        scores_(scores),
        packed_pairs_(packed_pairs),
        prefetcher_(prefetcher) {}

  void run() {
    find_largest();
    const std::int64_t pairs = blocks(block_.visible_end, 2), padded_pairs = blocks(block_.visible_end, 32) * 16;
    std::int64_t pair = 0;
    for (; pair < block_.unmasked_end / 2; ++pair) exponentials<false>(pair);
    for (; pair < pairs; ++pair) exponentials<true>(pair);
    for (; pair < padded_pairs; ++pair) store_pair(_mm512_setzero_si512(), _mm512_setzero_si512(), pair, packed_pairs_);
  }

  void results(float survivor_scale, float* factors, float* log_sum_exp) const {
    for (int s = 0; s < row_tiles; ++s) {
      _mm512_storeu_ps(factors + 16 * s, _mm512_div_ps(_mm512_set1_ps(survivor_scale), sum_[s]));
      const __m512 largest = _mm512_mul_ps(largest_[s], _mm512_set1_ps(0.693147181f));
      _mm512_storeu_ps(log_sum_exp + 16 * s, _mm512_add_ps(largest, logarithm(sum_[s])));
    }
  }

 private:
  __m512 score(std::int64_t key, int row_tile) const {
    return _mm512_load_ps(scores_ + key * block_queries + 16 * row_tile);
  }

  void find_largest() {
    for (int s = 0; s < row_tiles; ++s) largest_[s] = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    std::int64_t key = 0;
    for (; key < block_.unmasked_end; ++key) {
      for (int s = 0; s < row_tiles; ++s)
        largest_[s] = _mm512_max_ps(largest_[s], _mm512_mul_ps(score(key, s), scale_));
    }
    for (; key < block_.visible_end; ++key) {
      for (int s = 0; s < row_tiles; ++s) {
        const __m512 scaled = _mm512_mul_ps(score(key, s), scale_);
        largest_[s] = _mm512_mask_max_ps(largest_[s], block_.seeing(key, s), largest_[s], scaled);
      }
    }
    for (int s = 0; s < row_tiles; ++s) sum_[s] = _mm512_setzero_ps();
  }

  template <bool masked>
  void exponentials(std::int64_t pair) {
    prefetcher_.advance(4);
    __m512 even[2] = {}, odd[2] = {};
    for (int s = 0; s < row_tiles; ++s) {
      even[s] = exponential2(_mm512_fmsub_ps(score(2 * pair, s), scale_, largest_[s]));
      odd[s] = exponential2(_mm512_fmsub_ps(score(2 * pair + 1, s), scale_, largest_[s]));
      if constexpr (masked) {
        even[s] = _mm512_maskz_mov_ps(block_.seeing(2 * pair, s), even[s]);
        odd[s] = _mm512_maskz_mov_ps(block_.seeing(2 * pair + 1, s), odd[s]);
      }
      sum_[s] = _mm512_add_ps(sum_[s], _mm512_add_ps(even[s], odd[s]));
      if constexpr (drops) {
        const __m512i bits = dropout_[s].hash(pair);
        even[s] = _mm512_maskz_mov_ps(dropout_[s].keeps_even(bits), even[s]);
        odd[s] = _mm512_maskz_mov_ps(dropout_[s].keeps_odd(bits), odd[s]);
      }
    }
    store_pair(to_bf16(even[0], even[1]), to_bf16(odd[0], odd[1]), pair, packed_pairs_);
  }

  const QueryBlock& block_;
  DropoutLanes dropout_[2];
  __m512 scale_, largest_[row_tiles], sum_[row_tiles];
  const float* scores_;
  std::byte* packed_pairs_;
  Prefetcher& prefetcher_;
};

struct Task : HeadTask {
  Task(const AttentionForward& forward, std::int64_t index, std::byte* thread_memory, const Scratch& places,
       Prefetcher& next_task)
      : HeadTask(forward, index, thread_memory, next_task), op(forward), at(places) {}
  const AttentionForward& op;
  const Scratch& at;
};

template <int row_tiles>
void softmax(const Task& task, const QueryBlock& block, float* factors) {
  const AttentionForward& op = task.op;
  const std::int64_t row = task.first_query + block.first;
  float log_sum_exp[block_queries];
  const auto run = [&](auto&& softmax) {
    softmax.run();
    softmax.results(op.key.scale(), factors, log_sum_exp);
  };
  const float* scores = task.floats(task.at.scores);
  std::byte* packed_pairs = task.memory + task.at.packed_pairs;
  if (op.key.threshold() > 0) {
    run(BlockSoftmax<row_tiles, true>(block, task.key, row, op.scale, scores, packed_pairs, task.prefetcher));
  } else {
    run(BlockSoftmax<row_tiles, false>(block, task.key, row, op.scale, scores, packed_pairs, task.prefetcher));
  }
  for (std::int64_t i = 0; i < block.count; ++i) {
    op.log_sum_exp.as<float>()[(row + i) * op.heads + task.head] = log_sum_exp[i];
  }
}

void attend_block(const Task& task, const QueryBlock& block) {
  const Scratch& at = task.at;
  std::byte* memory = task.memory;
  const std::int64_t depth = task.row_bytes / 64, row_tiles = blocks(block.count, 16),
                     row = task.first_query + block.first;
  pack_transposed(task.whole_rows(task.op.q, row, block.count, at.ragged), row_tiles, depth, memory + at.queries);
  multiply(blocks(block.visible_end, 16), row_tiles, depth, {memory + at.keys, task.row_bytes, 16 * task.row_bytes, 64},
           {memory + at.queries, 64, row_tiles * tile_bytes, tile_bytes}, task.floats(at.scores), block_stride);
  float factors[block_queries];
  row_tiles == 2 ? softmax<2>(task, block, factors) : softmax<1>(task, block, factors);
  const std::int64_t chunks = blocks(block.visible_end, 32);
  transpose_pairs(memory + at.packed_pairs, chunks);
  multiply_to_rows({.columns = 2 * depth,
                    .depth = chunks,
                    .a = {memory + at.packed_pairs, 64, tile_bytes, 2 * tile_bytes},
                    .b = {memory + at.value_pairs, 64, 2 * depth * tile_bytes, tile_bytes},
                    .by_block_row = true,
                    .staging = task.floats(at.scores)},
                   task.prefetcher, task.out_rows(task.op.out, row, block.count, factors));
}

void attend(const Task& task) {
  const AttentionForward& op = task.op;
  const Scratch& at = task.at;
  if (task.keys == 0) {
    task.clear(op.out, task.first_query, task.queries);
    for (std::int64_t row = task.first_query; row < task.first_query + task.queries; ++row) {
      op.log_sum_exp.as<float>()[row * op.heads + task.head] = -std::numeric_limits<float>::infinity();
    }
    return;
  }
  pack_rows(task.rows(op.k, task.first_key, task.keys), blocks(task.keys, 16) * 16, task.row_bytes,
            task.row_bytes - 2 * task.width, task.memory + at.keys);
  const Rows values = task.whole_rows(op.v, task.first_key, task.keys, at.ragged);
  pack_pairs(values, task.row_bytes / 32, blocks(task.keys, 32), task.memory + at.value_pairs);
  for (std::int64_t first = 0; first < task.queries; first += block_queries) {
    attend_block(task, QueryBlock(first, task.queries, task.keys, op.causal));
  }
}

/// Lets the next task's rows be fetched while this one is computed.
void prefetch(const Task& next) {
  const std::int64_t bytes = 2 * next.width;
  next.prefetcher.add(next.rows(next.op.q, next.first_query, next.queries), bytes, false);
  next.prefetcher.add(next.rows(next.op.k, next.first_key, next.keys), bytes, false);
  next.prefetcher.add(next.rows(next.op.v, next.first_key, next.keys), bytes, false);
  next.prefetcher.add(next.rows(next.op.out, next.first_query, next.queries), bytes, true);
}

}  // namespace

void run_tiles(const AttentionForward& op, CpuContext& context) {
  const Scratch at(longest(op.k_offsets), op.q.shape[1] / op.heads);
  for_tasks<Task>(op, at, context, prefetch, attend);
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
