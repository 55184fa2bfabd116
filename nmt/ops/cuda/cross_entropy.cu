#include "nmt/ops/cross_entropy.h"

#include <climits>
#include <cmath>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"

namespace babelring::cuda {

namespace {

// One block a row: a row of logits is read from memory once and then from the caches.
constexpr int row_threads = 256;

/// An element and its place; of two, the larger comes first, of equals the one further left.
struct Ranked {
  float value;
  int place;
};

__device__ bool before(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.place < b.place);
}

/// The first of the block's; every thread has it.
__device__ Ranked block_first(Ranked mine) {
  __shared__ Ranked of_warps[row_threads / warp_lanes];
  for (int apart = warp_lanes / 2; apart > 0; apart /= 2) {
    const Ranked other{__shfl_xor_sync(all_lanes, mine.value, apart), __shfl_xor_sync(all_lanes, mine.place, apart)};
    if (before(other, mine)) mine = other;
  }
  if (threadIdx.x % warp_lanes == 0) of_warps[threadIdx.x / warp_lanes] = mine;
  __syncthreads();
  mine = of_warps[0];
  for (int w = 1; w < row_threads / warp_lanes; ++w) {
    if (before(of_warps[w], mine)) mine = of_warps[w];
  }
  __syncthreads();
  return mine;
}

/// An element as it is ranked: what is not a number comes last.
template <class T>
__device__ Ranked ranked(const T* x, int i) {
  const float value = widen(x[i]);
  return {isnan(value) ? -INFINITY : value, i};
}

/// The sum of e^(x - largest) over a row.
template <class T>
__device__ float sum_of_exponentials(const T* x, int width, float largest) {
  float sum = 0;
  for (int i = threadIdx.x; i < width; i += row_threads) sum += expf(widen(x[i]) - largest);
  return block_reduce<row_threads>(sum, Plus());
}

template <class T>
struct LossOperands {
  const T* logits;
  std::int64_t stride;
  const int* targets;
  T* dlogits;
  std::int64_t gradient_stride;
  float *loss, *nll, *correct;
  int* predicted;
  float smoothing, gradient_scale;
};

template <class T>
__device__ void write_gradient(const LossOperands<T>& of, std::int64_t row, int width, int target, float largest,
                               float exponentials) {
  const T* x = of.logits + row * of.stride;
  T* gradient = of.dlogits + row * of.gradient_stride;
  const float to_p = of.gradient_scale / exponentials;
  const float share = of.gradient_scale * of.smoothing / static_cast<float>(width);
  const float of_target = of.gradient_scale * (1 - of.smoothing);
  for (int i = threadIdx.x; i < width; i += row_threads) {
    const float d = expf(widen(x[i]) - largest) * to_p - share;
    gradient[i] = narrow<T>(i == target ? d - of_target : d);
  }
}

template <class T>
__global__ void cross_entropy_kernel(LossOperands<T> of, int width, IndexError* error) {
  const std::int64_t row = blockIdx.x;
  const int target = of.targets[row];
  if (!index_in_range(target, width, row, BadIndex::targets, error)) return;
  const T* x = of.logits + row * of.stride;
  Ranked best{-INFINITY, INT_MAX};
  float elements = 0;
  for (int i = threadIdx.x; i < width; i += row_threads) {
    const Ranked one = ranked(x, i);
    elements += widen(x[i]);
    if (before(one, best)) best = one;
  }
  best = block_first(best);
  elements = block_reduce<row_threads>(elements, Plus());
  const float target_logit = widen(x[target]);
  const float exponentials = sum_of_exponentials(x, width, best.value);
  if (threadIdx.x == 0) {
    const double log_sum = log(static_cast<double>(exponentials)) + static_cast<double>(best.value);
    const double nll = log_sum - static_cast<double>(target_logit);
    const double uniform = log_sum - static_cast<double>(elements) / width;  // mean of -log p
    of.nll[row] = static_cast<float>(nll);
    of.loss[row] = static_cast<float>((1 - static_cast<double>(of.smoothing)) * nll + of.smoothing * uniform);
    of.correct[row] = target_logit == best.value ? 1.0f : 0.0f;
    if (of.predicted != nullptr) of.predicted[row] = best.place;
  }
  // Every thread is past the reductions, so nobody reads what another overwrites in place.
  if (of.dlogits != nullptr) write_gradient(of, row, width, target, best.value, exponentials);
}

/// Finds one after another: each time the first of those behind the last one found.
template <class T>
__global__ void top_k_kernel(const T* logits, int width, float* scores, int* indices, int k) {
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * width;
  Ranked last{INFINITY, -1};
  float log_sum = 0;
  for (int found = 0; found < k; ++found) {
    Ranked best{-INFINITY, INT_MAX};
    for (int i = threadIdx.x; i < width; i += row_threads) {
      const Ranked one = ranked(x, i);
      if (before(last, one) && before(one, best)) best = one;
    }
    best = block_first(best);
    if (found == 0) log_sum = logf(sum_of_exponentials(x, width, best.value)) + best.value;
    if (threadIdx.x == 0) {
      scores[row * k + found] = best.value - log_sum;
      indices[row * k + found] = best.place;
    }
    last = best;
  }
}

}  // namespace

void run(const CrossEntropy& op, Workspace& workspace) {
  const std::int64_t rows = op.logits.shape[0];
  if (rows == 0) return;
  with_device_type(op.logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    const LossOperands<T> operands{.logits = op.logits.as<T>(),
                                   .stride = op.logits.row_stride,
                                   .targets = op.targets.as<int>(),
                                   .dlogits = op.dlogits ? op.dlogits.as<T>() : nullptr,
                                   .gradient_stride = op.dlogits.row_stride,
                                   .loss = op.loss.as<float>(),
                                   .nll = op.nll.as<float>(),
                                   .correct = op.correct.as<float>(),
                                   .predicted = op.predicted ? op.predicted.as<int>() : nullptr,
                                   .smoothing = op.smoothing,
                                   .gradient_scale = op.gradient_scale};
    launch(op.name, {static_cast<unsigned>(rows), row_threads, workspace.stream()}, cross_entropy_kernel<T>, operands,
           static_cast<int>(op.logits.shape[1]), workspace.index_error());
  });
}

void run(const LogSoftmaxTopK& op, Workspace& workspace) {
  const std::int64_t rows = op.logits.shape[0];
  if (rows == 0) return;
  with_device_type(op.logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    launch(op.name, {static_cast<unsigned>(rows), row_threads, workspace.stream()}, top_k_kernel<T>, op.logits.as<T>(),
           static_cast<int>(op.logits.shape[1]), op.scores.as<float>(), op.indices.as<int>(),
           static_cast<int>(op.scores.shape[1]));
  });
}

}  // namespace babelring::cuda
