#include <cmath>

#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/kernels/attention_tile.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

/// Where the parts of one thread's scratch begin, for the head's columns of the longest sentences.
struct Scratch {
  Scratch(std::int64_t longest_q, std::int64_t longest_k, std::int64_t width)
      : keys(longest_q * padded(width)),
        keys_transposed(keys + longest_k * padded(width)),
        scores(keys_transposed + width * padded(longest_k)),
        sums(scores + longest_q * padded(longest_k)),
        total(sums + std::max(longest_q, longest_k) * padded(width)) {}
  std::int64_t queries = 0, keys, keys_transposed, scores, sums, total;
};

/// Adds a tile [count, padded(width)] times `factor` to a head's columns.
template <class T>
void add_tile(const float* tile, float factor, const HeadRows<Tensor>& head) {
  const std::int64_t stride = padded(head.width);
  for (std::int64_t i = 0; i < head.count; ++i) {
    T* to = head.template row<T>(i);
    const float* from = tile + i * stride;
#pragma omp simd
    for (std::int64_t c = 0; c < head.width; ++c) to[c] = rounded<T>(static_cast<float>(to[c]) + from[c] * factor);
  }
}

/// The loss of row `row`, and its scores replaced by their gradients without gradient_scale.
float guide_row(const GuidedAttention& op, std::int64_t row, std::int64_t keys, float* __restrict scores) {
  const auto *first = op.link_offsets.as<std::int32_t>(), *links = op.links.as<std::int32_t>();
  const std::int32_t begin = first[row], end = first[row + 1];
  if (begin == end) {
    std::fill_n(scores, keys, 0.0f);
    return 0;
  }
  const float log_sum_exp = op.log_sum_exp.as<float>()[row * op.heads + op.head];
  const float weight = 1.0f / static_cast<float>(end - begin);
  float loss = 0;
  for (std::int32_t i = begin; i < end; ++i) loss += weight * (log_sum_exp - scores[links[i]] * op.scale);
#pragma omp simd
  for (std::int64_t j = 0; j < keys; ++j) scores[j] = exponential(scores[j] * op.scale - log_sum_exp);
  for (std::int32_t i = begin; i < end; ++i) scores[links[i]] -= weight;
  return loss;
}

template <class T>
void guide(const GuidedAttention& op, std::int64_t sentence, float* memory, const Scratch& at) {
  const auto *q_at = op.q_offsets.as<std::int32_t>() + sentence, *k_at = op.k_offsets.as<std::int32_t>() + sentence;
  const std::int64_t queries = q_at[1] - q_at[0], keys = k_at[1] - k_at[0], width = op.q.shape[1] / op.heads;
  const auto* links = op.link_offsets.as<std::int32_t>();
  if (links[q_at[0]] == links[q_at[1]]) {
    std::fill_n(op.loss.as<float>() + q_at[0], queries, 0.0f);
    return;
  }
  const std::int64_t stride = padded(width), key_stride = padded(keys);
  float *query_tile = memory + at.queries, *key_tile = memory + at.keys, *transposed = memory + at.keys_transposed;
  float *scores = memory + at.scores, *sums = memory + at.sums;
  load_tile<T>({op.q, q_at[0], queries, op.head, width}, query_tile);
  load_tile<T>({op.k, k_at[0], keys, op.head, width}, key_tile);
  transpose(key_tile, keys, width, transposed);
  const auto multiply = [](std::int64_t rows, std::int64_t columns, std::int64_t depth, const Factor& a, const float* b,
                           std::int64_t b_stride, float* c) {
    small_matmul({.rows = rows,
                  .columns = columns,
                  .depth = depth,
                  .a = a,
                  .b = b,
                  .b_stride = b_stride,
                  .c = c,
                  .c_stride = padded(columns)});
  };
  multiply(queries, keys, width, {query_tile, stride, 1}, transposed, key_stride, scores);
  for (std::int64_t i = 0; i < queries; ++i) {
    op.loss.as<float>()[q_at[0] + i] = guide_row(op, q_at[0] + i, keys, scores + i * key_stride);
  }
  const float factor = op.gradient_scale * op.scale;
  multiply(queries, width, keys, {scores, key_stride, 1}, key_tile, stride, sums);
  add_tile<T>(sums, factor, {op.dq, q_at[0], queries, op.head, width});
  multiply(keys, width, queries, {scores, 1, key_stride}, query_tile, stride, sums);
  add_tile<T>(sums, factor, {op.dk, k_at[0], keys, op.head, width});
}

}  // namespace

void run(const GuidedAttention& op, CpuContext& context) {
  const std::int64_t sentences = op.q_offsets.shape[0] - 1;
  const Scratch at(longest(op.q_offsets), longest(op.k_offsets), op.q.shape[1] / op.heads);
  const auto scratch = context.per_thread(at.total);
  with_float_type(op.q.dtype, [&](auto tag) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(context.threads_for(op.q.shape.elements() / op.heads))
    for (std::int64_t sentence = 0; sentence < sentences; ++sentence) {
      guide<decltype(tag)>(op, sentence, scratch.of_this_thread(), at);
    }
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
