#include "nmt/ops/attention.h"
#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"

namespace babelring::cuda {

namespace {

constexpr int guided_threads = 128;  // and the number of scores computed at once

template <class T>
struct GuidedOperands {
  const T *q, *k;
  std::int64_t q_stride, k_stride, dq_stride, dk_stride;
  const int *q_offsets, *k_offsets, *link_offsets, *links;
  const float* log_sum_exp;
  T *dq, *dk;
  float* loss;
  int sentences, heads, head, head_width;
  float scale, gradient_scale;
  const float* scale_place;  // of gradient_scale, unless null

  /// The sentence of a row: the last one that begins at or before it.
  __device__ int sentence_of(const int* offsets, int row) const {
    int low = 0, high = sentences - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (offsets[middle] <= row) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }
  __device__ float factor() const { return scale * (scale_place != nullptr ? *scale_place : gradient_scale); }
  __device__ float scaled_score(int query, int key) const {
    const T *a = q + query * q_stride + head * head_width, *b = k + key * k_stride + head * head_width;
    float dot = 0;
    for (int i = 0; i < head_width; ++i) dot += widen(a[i]) * widen(b[i]);
    return dot * scale;
  }
  /// The gradient of the score of `query` and `key`, which is at `position` in its sentence, without gradient_scale.
  __device__ float score_gradient(int query, int key, int position) const {
    const int first = link_offsets[query], last = link_offsets[query + 1];
    if (first == last) return 0;
    int found = 0;
    for (int i = first; i < last; ++i) found += links[i] == position ? 1 : 0;
    const float log_sum = log_sum_exp[static_cast<std::int64_t>(query) * heads + head];
    return expf(scaled_score(query, key) - log_sum) - static_cast<float>(found) / static_cast<float>(last - first);
  }
};

/// Adds factor * the sum over `count` rows, from `rows` on, of score_gradient(j) times row j to the row at `to`. The
/// whole block calls it.
template <class T, class Gradient>
__device__ void add_weighted_rows(const T* rows, std::int64_t stride, int count, int width, float factor, T* to,
                                  Gradient&& score_gradient) {
  auto* sums = dynamic_shared<float>();  // [head width]
  __shared__ float gradients[guided_threads];
  for (int i = threadIdx.x; i < width; i += guided_threads) sums[i] = 0;
  for (int first = 0; first < count; first += guided_threads) {
    const int j = first + static_cast<int>(threadIdx.x);
    gradients[threadIdx.x] = j < count ? score_gradient(j) : 0.0f;
    __syncthreads();
    const int here = count - first < guided_threads ? count - first : guided_threads;
    for (int i = threadIdx.x; i < width; i += guided_threads) {
      float sum = sums[i];
      for (int l = 0; l < here; ++l) sum += gradients[l] * widen(rows[(first + l) * stride + i]);
      sums[i] = sum;
    }
    __syncthreads();  // before the next gradients are written
  }
  for (int i = threadIdx.x; i < width; i += guided_threads) to[i] = narrow<T>(widen(to[i]) + factor * sums[i]);
}

/// One block for a query row: its loss and the gradient of q.
template <class T>
__global__ void guided_queries_kernel(GuidedOperands<T> op) {
  await_earlier_kernels();
  const int row = static_cast<int>(blockIdx.x), first = op.link_offsets[row], last = op.link_offsets[row + 1];
  if (first == last) {
    if (threadIdx.x == 0) op.loss[row] = 0;
    return;
  }
  const int sentence = op.sentence_of(op.q_offsets, row), begin = op.k_offsets[sentence];
  const int column = op.head * op.head_width;
  if (threadIdx.x == 0) {
    const float log_sum = op.log_sum_exp[static_cast<std::int64_t>(row) * op.heads + op.head];
    float loss = 0;
    for (int i = first; i < last; ++i) loss += log_sum - op.scaled_score(row, begin + op.links[i]);
    op.loss[row] = loss / static_cast<float>(last - first);
  }
  add_weighted_rows(op.k + begin * op.k_stride + column, op.k_stride, op.k_offsets[sentence + 1] - begin, op.head_width,
                    op.factor(), op.dq + row * op.dq_stride + column,
                    [&](int j) { return op.score_gradient(row, begin + j, j); });
}

/// One block for a key row: the gradient of k.
template <class T>
__global__ void guided_keys_kernel(GuidedOperands<T> op) {
  await_earlier_kernels();
  const int row = static_cast<int>(blockIdx.x), sentence = op.sentence_of(op.k_offsets, row);
  const int begin = op.q_offsets[sentence], end = op.q_offsets[sentence + 1];
  if (op.link_offsets[begin] == op.link_offsets[end]) return;
  const int column = op.head * op.head_width, position = row - op.k_offsets[sentence];
  add_weighted_rows(op.q + begin * op.q_stride + column, op.q_stride, end - begin, op.head_width, op.factor(),
                    op.dk + row * op.dk_stride + column,
                    [&](int i) { return op.score_gradient(begin + i, row, position); });
}

}  // namespace

void run(const GuidedAttention& op, CudaContext& context) {
  if (op.q.shape[0] == 0) return;
  const auto list = [&](const ConstTensor& host) { return context.lists().on_device(host_list(host)); };
  with_device_type(op.q.dtype, [&](auto tag) {
    using T = decltype(tag);
    RepeatValues& values = context.values();
    const int head_width = static_cast<int>(op.q.shape[1] / op.heads);
    const GuidedOperands<T> operands{.q = op.q.as<T>(),
                                     .k = op.k.as<T>(),
                                     .q_stride = op.q.row_stride,
                                     .k_stride = op.k.row_stride,
                                     .dq_stride = op.dq.row_stride,
                                     .dk_stride = op.dk.row_stride,
                                     .q_offsets = list(op.q_offsets),
                                     .k_offsets = list(op.k_offsets),
                                     .link_offsets = list(op.link_offsets),
                                     .links = op.links.shape[0] > 0 ? list(op.links) : nullptr,
                                     .log_sum_exp = op.log_sum_exp.as<float>(),
                                     .dq = op.dq.as<T>(),
                                     .dk = op.dk.as<T>(),
                                     .loss = op.loss.as<float>(),
                                     .sentences = static_cast<int>(op.q_offsets.shape[0] - 1),
                                     .heads = op.heads,
                                     .head = op.head,
                                     .head_width = head_width,
                                     .scale = op.scale,
                                     .gradient_scale = values.active() ? 0 : op.gradient_scale,
                                     .scale_place = values.active() ? values.number(op.gradient_scale) : nullptr};
    const auto launch_rows = [&](std::int64_t rows, void (*kernel)(GuidedOperands<T>)) {
      if (rows == 0) return;
      launch(op.name,
             {static_cast<unsigned>(rows), guided_threads, context.stream(),
              static_cast<std::size_t>(head_width) * sizeof(float)},
             kernel, operands);
    };
    launch_rows(op.q.shape[0], guided_queries_kernel<T>);
    launch_rows(op.k.shape[0], guided_keys_kernel<T>);
  });
}

}  // namespace babelring::cuda
