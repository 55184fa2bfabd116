#include "nmt/ops/cross_entropy.h"

#include <climits>
#include <cmath>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

// One block a row, n columns a thread at a time. A row of logits is read from memory once and then from the caches:
// with so many threads no more rows are under way than these hold.
constexpr int row_threads = 512;

/// An element and its place; of two, the larger comes first, of equals the one further left.
struct Ranked {
  float value;
  int place;
};

__device__ bool before(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.place < b.place);
}

/// The first of all that the block's threads bring, for every thread.
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
__device__ Ranked ranked(float value, int place) {
  return {isnan(value) ? -INFINITY : value, place};
}

/// e^x, x being the difference of two logits: scaled after it was taken, so that large ones lose nothing.
__device__ float power(float x) {
  return exp2f(x * 1.4426950408889634f);
}

/// Of the elements that a thread has seen: the best, which comes first, and the sum of e^(x - best).
struct Seen {
  Ranked best{-INFINITY, INT_MAX};
  float exponentials = 0;

  template <class T, int n>
  __device__ void add(const Piece<T, n>& piece, int place) {
    const float before_it = best.value;
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const Ranked one = ranked(widen(piece.of[e]), place + e);
      if (before(one, best)) best = one;
    }
    const float shift = offset(best.value);
    if (best.value > before_it) exponentials *= power(before_it - shift);
#pragma unroll
    for (int e = 0; e < n; ++e) exponentials += power(widen(piece.of[e]) - shift);
  }
  /// The sum relative to another element. A thread that saw nothing contributes 0, not 0 times infinity.
  __device__ float relative_to(float largest) const {
    return exponentials == 0 ? 0.0f : exponentials * power(offset(best.value) - offset(largest));
  }

 private:
  /// Nothing but minus infinity seen yet: e^(x - 0) is 0 then, and NaN for what is not a number.
  __device__ static float offset(float largest) {
    return largest == -INFINITY ? 0.0f : largest;
  }
};

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

template <int n, class T>
__device__ void write_gradient(const LossOperands<T>& of, std::int64_t row, int width, int target, float largest,
                               float exponentials) {
  const T* x = of.logits + row * of.stride;
  T* gradient = of.dlogits + row * of.gradient_stride;
  const float to_p = of.gradient_scale / exponentials;
  const float share = of.gradient_scale * of.smoothing / static_cast<float>(width);
  const float of_target = of.gradient_scale * (1 - of.smoothing);
  for (int i = threadIdx.x * n; i < width; i += row_threads * n) {
    auto piece = piece_at<n>(x + i);
#pragma unroll
    for (int e = 0; e < n; ++e) {
      const float d = power(widen(piece.of[e]) - largest) * to_p - share;
      piece.of[e] = narrow<T>(i + e == target ? d - of_target : d);
    }
    put_piece(gradient + i, piece);
  }
}

template <int n, class T>
__global__ void __launch_bounds__(row_threads) cross_entropy_kernel(LossOperands<T> of, int width, IndexError* error) {
  const std::int64_t row = blockIdx.x;
  const int target = of.targets[row];
  if (!index_in_range(target, width, row, BadIndex::targets, error)) return;
  const T* x = of.logits + row * of.stride;
  Seen seen;
  float elements = 0;
  for (int i = threadIdx.x * n; i < width; i += row_threads * n) {
    const auto piece = piece_at<n>(x + i);
    for (const T value : piece.of) elements += widen(value);
    seen.add(piece, i);
  }
  const Ranked best = block_first(seen.best);
  elements = block_reduce<row_threads>(elements, Plus());
  const float target_logit = widen(x[target]);
  const float exponentials = block_reduce<row_threads>(seen.relative_to(best.value), Plus());
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
  if (of.dlogits != nullptr) write_gradient<n>(of, row, width, target, best.value, exponentials);
}

/// Finds the k best one after another: each time the first of those that come after the last one found.
template <int n, class T>
__global__ void __launch_bounds__(row_threads)
    top_k_kernel(const T* logits, int width, float* scores, int* indices, int k) {
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * width;
  Seen seen;
  for (int i = threadIdx.x * n; i < width; i += row_threads * n) seen.add(piece_at<n>(x + i), i);
  Ranked best = block_first(seen.best);
  const float log_sum = logf(block_reduce<row_threads>(seen.relative_to(best.value), Plus())) + best.value;
  for (int found = 0; found < k; ++found) {
    if (threadIdx.x == 0) {
      scores[row * k + found] = best.value - log_sum;
      indices[row * k + found] = best.place;
    }
    if (found + 1 == k) break;
    Ranked next{-INFINITY, INT_MAX};
    for (int i = threadIdx.x * n; i < width; i += row_threads * n) {
      const auto piece = piece_at<n>(x + i);
#pragma unroll
      for (int e = 0; e < n; ++e) {
        const Ranked one = ranked(widen(piece.of[e]), i + e);
        if (before(best, one) && before(one, next)) next = one;
      }
    }
    best = block_first(next);
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
    with_pieces<T>({op.logits.shape[1], op.logits.row_stride, op.dlogits ? op.dlogits.row_stride : 0},
                   {op.logits.data, op.dlogits.data}, [&](auto n) {
                     launch(op.name, {static_cast<unsigned>(rows), row_threads, workspace.stream()},
                            cross_entropy_kernel<n, T>, operands, static_cast<int>(op.logits.shape[1]),
                            workspace.index_error());
                   });
  });
}

void run(const LogSoftmaxTopK& op, Workspace& workspace) {
  const std::int64_t rows = op.logits.shape[0];
  if (rows == 0) return;
  with_device_type(op.logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({op.logits.shape[1]}, {op.logits.data}, [&](auto n) {
      launch(op.name, {static_cast<unsigned>(rows), row_threads, workspace.stream()}, top_k_kernel<n, T>,
             op.logits.as<T>(), static_cast<int>(op.logits.shape[1]), op.scores.as<float>(), op.indices.as<int>(),
             static_cast<int>(op.scores.shape[1]));
    });
  });
}

}  // namespace babelring::cuda
