#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/kernels/attention_tile.h"
#include "nmt/ops/cpu/kernels/dropout_mask.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

/// Where the parts of one thread's scratch begin. Tiles of keys are [longest, padded width], transposed ones
/// [width, padded longest], tiles of queries [query_block, padded width], scores [query_block, padded longest].
struct Scratch {
  Scratch(std::int64_t longest_k, std::int64_t width) {
    const std::int64_t key_tile = longest_k * padded(width), turned = width * padded(longest_k);
    const std::int64_t query_tile = query_block * padded(width), score_tile = query_block * padded(longest_k);
    keys = take(key_tile), keys_transposed = take(turned), values = take(key_tile), values_transposed = take(turned);
    dk = take(key_tile), dv = take(key_tile);
    queries = take(query_tile), dout = take(query_tile), out = take(query_tile), dq = take(query_tile);
    scores = take(score_tile), dropped = take(score_tile), dscores = take(score_tile);
  }
  std::int64_t keys, keys_transposed, values, values_transposed, dk, dv;
  std::int64_t queries, dout, out, dq, scores, dropped, dscores, total = 0;

 private:
  std::int64_t take(std::int64_t floats) {
    const std::int64_t begin = total;
    total += padded(floats);
    return begin;
  }
};

/// One sentence and head.
struct Task {
  std::int64_t head, width, stride, first_query, queries, first_key, keys, key_stride;
  DropoutKey key;
  float* memory;
  const Scratch& at;

  Task(const AttentionBackward& op, std::int64_t index, float* thread_memory, const Scratch& places)
      : head(index % op.heads),
        width(op.q.shape[1] / op.heads),
        stride(padded(width)),
        key(op.key),
        memory(thread_memory),
        at(places) {
    const auto* q_at = op.q_offsets.as<std::int32_t>() + index / op.heads;
    const auto* k_at = op.k_offsets.as<std::int32_t>() + index / op.heads;
    first_query = q_at[0], queries = q_at[1] - q_at[0], first_key = k_at[0], keys = k_at[1] - k_at[0];
    key_stride = padded(keys);
    key.key = derive_seed(op.key.key, static_cast<std::uint64_t>(head));
  }
};

/// One query's probabilities p from its scores, their dropped-out form, and ds = p * (dp * mask - dot(dout, out)).
void differentiate_row(const AttentionBackward& op, const Task& task, std::int64_t i, std::int64_t row,
                       std::int64_t visible, std::int64_t visible_end) {
  const Scratch& at = task.at;
  float* __restrict scores = task.memory + at.scores + i * task.key_stride;
  float* __restrict dropped = task.memory + at.dropped + i * task.key_stride;
  float* __restrict dscores = task.memory + at.dscores + i * task.key_stride;
  const float *dout = task.memory + at.dout + i * task.stride, *out = task.memory + at.out + i * task.stride;
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (std::int64_t c = 0; c < task.width; ++c) dot += dout[c] * out[c];
  const float log_sum_exp = op.log_sum_exp.as<float>()[row * op.heads + task.head];
  for_dropout_runs(task.key, row, visible, [&](std::int64_t first, std::int64_t count, const float* factors) {
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      const float p = exponential(scores[first + j] * op.scale - log_sum_exp);
      dropped[first + j] = p * factors[j];
      dscores[first + j] = p * (dscores[first + j] * factors[j] - dot);
    }
  });
  std::fill(dropped + visible, dropped + visible_end, 0.0f);
  std::fill(dscores + visible, dscores + visible_end, 0.0f);
}

template <class T>
void query_block_backward(const AttentionBackward& op, const Task& task, std::int64_t first) {
  const Scratch& at = task.at;
  float* memory = task.memory;
  const std::int64_t stride = task.stride, key_stride = task.key_stride, width = task.width;
  const std::int64_t count = std::min(query_block, task.queries - first), row = task.first_query + first;
  const std::int64_t visible_end = op.causal ? std::min(task.keys, first + count) : task.keys;
  float *queries = memory + at.queries, *dout = memory + at.dout, *scores = memory + at.scores;
  float *dscores = memory + at.dscores, *dropped = memory + at.dropped, *dq = memory + at.dq;
  load_tile<T>({op.q, row, count, task.head, width}, queries);
  load_tile<T>({op.dout, row, count, task.head, width}, dout);
  load_tile<T>({op.out, row, count, task.head, width}, memory + at.out);
  const auto multiply_keys = [&](const float* rows, const float* transposed, float* result) {
    small_matmul({.rows = count,
                  .columns = visible_end,
                  .depth = width,
                  .a = {rows, stride, 1},
                  .b = transposed,
                  .b_stride = key_stride,
                  .c = result,
                  .c_stride = key_stride});
  };
  multiply_keys(queries, memory + at.keys_transposed, scores);
  multiply_keys(dout, memory + at.values_transposed, dscores);
  for (std::int64_t i = 0; i < count; ++i) {
    differentiate_row(op, task, i, row + i, op.causal ? std::min(task.keys, first + i + 1) : task.keys, visible_end);
  }
  const auto add_over_queries = [&](const float* of_scores, const float* rows, float* sum) {
    small_matmul({.rows = visible_end,
                  .columns = width,
                  .depth = count,
                  .a = {of_scores, 1, key_stride},
                  .b = rows,
                  .b_stride = stride,
                  .c = sum,
                  .c_stride = stride,
                  .accumulate = true});
  };
  add_over_queries(dropped, dout, memory + at.dv);
  add_over_queries(dscores, queries, memory + at.dk);
  small_matmul({.rows = count,
                .columns = width,
                .depth = visible_end,
                .a = {dscores, key_stride, 1},
                .b = memory + at.keys,
                .b_stride = stride,
                .c = dq,
                .c_stride = stride});
  store_tile<T>(dq, op.scale, {op.dq, row, count, task.head, width});
}

template <class T>
void backward(const AttentionBackward& op, const Task& task) {
  const Scratch& at = task.at;
  float* memory = task.memory;
  load_tile<T>({op.k, task.first_key, task.keys, task.head, task.width}, memory + at.keys);
  load_tile<T>({op.v, task.first_key, task.keys, task.head, task.width}, memory + at.values);
  transpose(memory + at.keys, task.keys, task.width, memory + at.keys_transposed);
  transpose(memory + at.values, task.keys, task.width, memory + at.values_transposed);
  std::fill_n(memory + at.dk, task.keys * task.stride, 0.0f);
  std::fill_n(memory + at.dv, task.keys * task.stride, 0.0f);
  for (std::int64_t first = 0; first < task.queries; first += query_block) query_block_backward<T>(op, task, first);
  store_tile<T>(memory + at.dk, op.scale, {op.dk, task.first_key, task.keys, task.head, task.width});
  store_tile<T>(memory + at.dv, 1, {op.dv, task.first_key, task.keys, task.head, task.width});
}

}  // namespace

void run(const AttentionBackward& op, CpuContext& context) {
#if defined(__AVX512BF16__)
  if (fits_tiles(op, context)) return run_tiles(op, context);
#endif
  run_vectors(op, context);
}

void run_vectors(const AttentionBackward& op, CpuContext& context) {
  const std::int64_t tasks = (op.q_offsets.shape[0] - 1) * op.heads;
  const Scratch at(longest(op.k_offsets), op.q.shape[1] / op.heads);
  const auto scratch = context.per_thread(at.total);
  const std::int64_t run = run_of_tasks(tasks, op.heads, context.threads());
  with_float_type(op.q.dtype, [&](auto tag) {
#pragma omp parallel for schedule(dynamic, run) num_threads(context.threads_for(2 * op.q.shape.elements()))
    for (std::int64_t index = 0; index < tasks; ++index) {
      backward<decltype(tag)>(op, Task(op, index, scratch.of_this_thread(), at));
    }
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
