#include <algorithm>
#include <cmath>

#include "nmt/base/failure.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

namespace {

/// Throws Failure if a row's keys are not in the cache; returns the largest count.
std::int64_t check_ranges(const DecodeAttention& op) {
  const auto *begin = op.key_begin.as<std::int32_t>(), *count = op.key_count.as<std::int32_t>();
  const std::int64_t cached = op.keys.shape[0];
  std::int64_t largest = 0;
  for (std::int64_t row = 0; row < op.q.shape[0]; ++row) {
    if (begin[row] < 0 || count[row] < 0 || begin[row] + std::int64_t{count[row]} > cached) {
      fail("{}: row {} has keys {} to {}, the cache has {} rows", op.name, row, begin[row],
           begin[row] + std::int64_t{count[row]}, cached);
    }
    largest = std::max<std::int64_t>(largest, count[row]);
  }
  return largest;
}

/// `scratch`: width floats of the query, width of the result, then the scores.
template <class T>
void attend(const DecodeAttention& op, std::int64_t row, std::int64_t head, float* scratch) {
  const std::int64_t width = op.q.shape[1] / op.heads, column = head * width;
  const std::int64_t begin = op.key_begin.as<std::int32_t>()[row], count = op.key_count.as<std::int32_t>()[row];
  float *q = scratch, *__restrict sum = scratch + width, *__restrict p = scratch + 2 * width;
  widen(op.q.as<T>() + row * op.q.row_stride + column, q, width);
  std::fill_n(sum, width, 0.0f);
  float largest = -INFINITY, total = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    const T* key = op.keys.as<T>() + (begin + j) * op.keys.row_stride + column;
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (std::int64_t c = 0; c < width; ++c) dot += q[c] * load(key[c]);
    p[j] = dot * op.scale;
    largest = std::max(largest, p[j]);
  }
#pragma omp simd reduction(+ : total)
  for (std::int64_t j = 0; j < count; ++j) {
    p[j] = exponential(p[j] - largest);
    total += p[j];
  }
  for (std::int64_t j = 0; j < count; ++j) {
    const T* value = op.values.as<T>() + (begin + j) * op.values.row_stride + column;
    const float weight = p[j] / total;
#pragma omp simd
    for (std::int64_t c = 0; c < width; ++c) sum[c] += weight * load(value[c]);
  }
  narrow(sum, op.out.as<T>() + row * op.q.shape[1] + column, width);
}

}  // namespace

void run(const DecodeAttention& op, Workspace& workspace) {
  const std::int64_t rows = op.q.shape[0], longest = check_ranges(op);
  const auto scratch = workspace.per_thread(2 * op.q.shape[1] / op.heads + longest);
  with_float_type(op.q.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* op.q.shape[1] * longest))
    for (std::int64_t task = 0; task < rows * op.heads; ++task) {
      attend<decltype(tag)>(op, task / op.heads, task % op.heads, scratch.of_this_thread());
    }
  });
}

}  // namespace babelring::cpu
