#include "nmt/ops/attention.h"

#include <cmath>

#include "nmt/ops/cpu/kernels/attention_tile.h"
#include "nmt/ops/cpu/kernels/dropout_mask.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

/// Where the parts of one thread's scratch begin, for sentences up to the longest.
struct Scratch {
  Scratch(std::int64_t longest_k, std::int64_t width)
      : keys(0),
        keys_transposed(keys + longest_k * padded(width)),
        values(keys_transposed + width * padded(longest_k)),
        queries(values + longest_k * padded(width)),
        scores(queries + query_block * padded(width)),
        out(scores + query_block * padded(longest_k)),
        total(out + query_block * padded(width)) {}
  std::int64_t keys, keys_transposed, values, queries, scores, out, total;
};

/// Scores of one query to probabilities, with dropout; returns log sum exp. `visible` keys count, the rest become 0.
float softmax_row(float* __restrict scores, std::int64_t visible, std::int64_t keys, float scale, const DropoutKey& key,
                  std::int64_t row) {
  float largest = scores[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t j = 0; j < visible; ++j) largest = scores[j] > largest ? scores[j] : largest;
  float sum = 0;
  if (scale < 0) {  // the largest scaled score is then the smallest score
    for (std::int64_t j = 0; j < visible; ++j) largest = std::min(largest, scores[j]);
  }
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < visible; ++j) {
    scores[j] = exponential((scores[j] - largest) * scale);
    sum += scores[j];
  }
  const float inverse = 1 / sum;
  for_dropout_runs(key, row, visible, [&](std::int64_t first, std::int64_t count, const float* factors) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) scores[first + j] *= inverse * factors[j];
  });
  std::fill(scores + visible, scores + keys, 0.0f);
  return largest * scale + std::log(sum);
}

template <class T>
void attend(const AttentionForward& op, std::int64_t sentence, std::int64_t head, float* memory, const Scratch& at) {
  const auto *q_at = op.q_offsets.as<std::int32_t>() + sentence, *k_at = op.k_offsets.as<std::int32_t>() + sentence;
  const std::int64_t queries = q_at[1] - q_at[0], keys = k_at[1] - k_at[0], width = op.q.shape[1] / op.heads;
  const std::int64_t stride = padded(width), key_stride = padded(keys);
  float *key_tile = memory + at.keys, *transposed = memory + at.keys_transposed, *values = memory + at.values;
  float *query_tile = memory + at.queries, *scores = memory + at.scores, *out = memory + at.out;
  load_tile<T>({op.k, k_at[0], keys, head, width}, key_tile);
  transpose(key_tile, keys, width, transposed);
  load_tile<T>({op.v, k_at[0], keys, head, width}, values);
  DropoutKey key = op.key;
  key.key = derive_seed(op.key.key, static_cast<std::uint64_t>(head));
  for (std::int64_t first = 0; first < queries; first += query_block) {
    const std::int64_t count = std::min(query_block, queries - first), row = q_at[0] + first;
    const std::int64_t visible_end =
        op.causal ? std::min(keys, first + count) : keys;  // keys any query of the block sees
    load_tile<T>({op.q, row, count, head, width}, query_tile);
    small_matmul({.rows = count,
                  .columns = visible_end,
                  .depth = width,
                  .a = {query_tile, stride, 1},
                  .b = transposed,
                  .b_stride = key_stride,
                  .c = scores,
                  .c_stride = key_stride});
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t visible = op.causal ? std::min(keys, first + i + 1) : keys;
      op.log_sum_exp.as<float>()[(row + i) * op.heads + head] =
          visible == 0 ? -INFINITY : softmax_row(scores + i * key_stride, visible, visible_end, op.scale, key, row + i);
    }
    small_matmul({.rows = count,
                  .columns = width,
                  .depth = visible_end,
                  .a = {scores, key_stride, 1},
                  .b = values,
                  .b_stride = stride,
                  .c = out,
                  .c_stride = stride});
    store_tile<T>(out, 1, {op.out, row, count, head, width});
  }
}

}  // namespace

void run(const AttentionForward& op, CpuContext& context) {
#if defined(__AVX512BF16__)
  if (fits_tiles(op, context)) return run_tiles(op, context);
#endif
  run_vectors(op, context);
}

void run_vectors(const AttentionForward& op, CpuContext& context) {
  const std::int64_t sentences = op.q_offsets.shape[0] - 1, tasks = sentences * op.heads;
  const Scratch at(longest(op.k_offsets), op.q.shape[1] / op.heads);
  const auto scratch = context.per_thread(at.total);
  const std::int64_t run = run_of_tasks(tasks, op.heads, context.threads());
  with_float_type(op.q.dtype, [&](auto tag) {
#pragma omp parallel for schedule(dynamic, run) num_threads(context.threads_for(2 * op.q.shape.elements()))
    for (std::int64_t task = 0; task < tasks; ++task) {
      attend<decltype(tag)>(op, task / op.heads, task % op.heads, scratch.of_this_thread(), at);
    }
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
