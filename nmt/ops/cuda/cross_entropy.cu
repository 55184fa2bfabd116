#include "nmt/ops/cross_entropy.h"

#include <climits>
#include <cmath>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/fast_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

// One block a row, n columns a thread at a time. A row of logits is read from memory once and then from the caches:
// with this number of threads, the caches hold all rows that are being read.
constexpr int row_threads = 512;
/// Blocks that run on a multiprocessor at the same time. Leaves a thread 32 registers, or 40.
template <class T>
constexpr int blocks_at_once = sizeof(T) == 2 ? 4 : 3;

/// An element and its place. Larger elements rank first; of equal elements the left one.
struct Ranked {
  float value;
  int place;
};

__device__ bool ranks_before(const Ranked& a, const Ranked& b) {
  return a.value > b.value || (a.value == b.value && a.place < b.place);
}

/// The first of all that the block's threads bring, for every thread.
__device__ Ranked block_first(Ranked mine) {
  __shared__ Ranked of_warps[row_threads / warp_lanes];
  for (int apart = warp_lanes / 2; apart > 0; apart /= 2) {
    const Ranked other{__shfl_xor_sync(all_lanes, mine.value, apart), __shfl_xor_sync(all_lanes, mine.place, apart)};
    if (ranks_before(other, mine)) mine = other;
  }
  if (threadIdx.x % warp_lanes == 0) of_warps[threadIdx.x / warp_lanes] = mine;
  __syncthreads();
  mine = of_warps[0];
  for (int w = 1; w < row_threads / warp_lanes; ++w) {
    if (ranks_before(of_warps[w], mine)) mine = of_warps[w];
  }
  __syncthreads();
  return mine;
}

/// An element with its rank's value: NaN comes last.
__device__ Ranked ranked(float value, int place) {
  return {isnan(value) ? -INFINITY : value, place};
}

/// From one piece of a thread to its next.
template <int n>
constexpr int piece_step = row_threads * n;

/// Calls body(pieces, column) until all of the thread's pieces were in an array of two, so that two are on their way at
/// a time, or of one; column is that of the first.
template <int n, class T, class Body>
__device__ void for_own_pieces(const T* x, int width, Body&& body) {
  int i = static_cast<int>(threadIdx.x) * n;
#pragma unroll 1
  for (; i + piece_step<n> < width; i += 2 * piece_step<n>) {
    const Elements<T, n> two[] = {Elements<T, n>(x + i), Elements<T, n>(x + i + piece_step<n>)};
    body(two, i);
  }
  if (i >= width) return;
  const Elements<T, n> one[] = {Elements<T, n>(x + i)};
  body(one, i);
}

/// Sums over logits x. Exponentials are 2^(log2(e) x - shift), shift being log2(e) times the largest logit, rounded:
/// the difference is rounded once, after the multiplication, so that large logits lose nothing, and what the shift lost
/// to its rounding is the same for all of them.
struct LogitSums {
  float largest = -1e38f;  // below all logits, but not minus infinity: the difference of two infinities is a NaN
  float minus_shift = -log2_e * largest;
  float exponentials = 0, elements = 0;

  __device__ static float power(float x, float minus_shift) { return exp2_approx(fmaf(x, log2_e, minus_shift)); }

  template <class T, int n, int count>
  __device__ void add(const Elements<T, n> (&pieces)[count]) {
    largest = largest_of(pieces, largest);
    const float before = minus_shift;
    minus_shift = -log2_e * largest;
    exponentials *= exp2_approx(minus_shift - before);
#pragma unroll
    for (int e = 0; e < n * count; ++e) {
      const float value = pieces[e / n][e % n];
      elements += value;
      exponentials += power(value, minus_shift);
    }
  }
  /// Adds up what the block's threads have; every thread has the result.
  __device__ LogitSums of_block() const {
    LogitSums sums;
    sums.largest = block_reduce<row_threads>(largest, Larger());
    sums.minus_shift = -log2_e * sums.largest;
    const float relative = exponentials * exp2_approx(sums.minus_shift - minus_shift);
    sums.exponentials = block_reduce<row_threads>(relative, Plus());
    sums.elements = block_reduce<row_threads>(elements, Plus());
    return sums;
  }
  /// Logarithm of the sum of e^(x - largest).
  __device__ float log_sum() const { return logf(exponentials / power(largest, minus_shift)); }
};

/// The first place in the row that has the value; 0 if there is none, as in a row that is not finite. For every thread.
template <int n, class T>
__device__ int first_place(const T* x, int width, float value) {
  Ranked first{0, INT_MAX};
  for_own_pieces<n>(x, width, [&](const auto& pieces, int column) {
    for (const auto& values : pieces) {
#pragma unroll
      for (int e = 0; e < n; ++e) {
        if (values[e] == value) first.place = min(first.place, column + e);
      }
      column += piece_step<n>;
    }
  });
  first = block_first(first);
  return first.place == INT_MAX ? 0 : first.place;
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
  const float* scale_place;  // where gradient_scale is instead; null: it is the one above
};

/// May overwrite x. The target's element is written once more by the thread that wrote its piece. `scale` is in shared
/// memory and read twice: registers are short.
template <int n, class T>
__device__ void write_gradient(const LossOperands<T>& operands, std::int64_t row, int width, int target,
                               float target_logit, const LogitSums& sums, const volatile float& scale) {
  T* gradient = operands.dlogits + row * operands.gradient_stride;
  const float to_p = scale / sums.exponentials, minus_shift = sums.minus_shift;
  const float spread = scale * operands.smoothing / static_cast<float>(width);
  for_own_pieces<n>(operands.logits + row * operands.stride, width, [&](const auto& pieces, int column) {
    for (const auto& values : pieces) {
      float d[n];
#pragma unroll
      for (int e = 0; e < n; ++e) d[e] = fmaf(LogitSums::power(values[e], minus_shift), to_p, -spread);
      stream_elements(gradient + column, Elements<T, n>(d));
      column += piece_step<n>;
    }
  });
  if (target / n % row_threads == static_cast<int>(threadIdx.x)) {
    const float of_target = scale * (1 - operands.smoothing);
    gradient[target] = narrow<T>(fmaf(LogitSums::power(target_logit, minus_shift), to_p, -spread) - of_target);
  }
}

/// The rows that a matmul wrote last, which are still in the cache, come first.
template <int n, class T>
__global__ void __launch_bounds__(row_threads, bound_blocks(blocks_at_once<T>))
    cross_entropy_kernel(LossOperands<T> operands, int width, IndexError* error) {
  await_earlier_kernels();
  const std::int64_t row = gridDim.x - 1 - blockIdx.x;
  __shared__ float scale;  // of the gradient
  int target = operands.targets[row];
  if (threadIdx.x == 0) scale = operands.scale_place != nullptr ? *operands.scale_place : operands.gradient_scale;
  if (target == CrossEntropy::no_target) {  // goes through the motions, for nothing
    target = 0;
    if (threadIdx.x == 0) scale = 0;
  }
  if (!index_in_range(target, width, row, BadIndex::targets, error)) return;
  const T* x = operands.logits + row * operands.stride;
  LogitSums own;
  for_own_pieces<n>(x, width, [&](const auto& pieces, int) { own.add(pieces); });
  const float target_logit = widen(x[target]);
  const LogitSums sums = own.of_block();
  if (threadIdx.x == 0) {
    const float log_sum = sums.log_sum();
    const float nll = log_sum + (sums.largest - target_logit);
    const float uniform = log_sum + (sums.largest - sums.elements / static_cast<float>(width));  // mean of -log p
    operands.nll[row] = nll;
    operands.loss[row] = (1 - operands.smoothing) * nll + operands.smoothing * uniform;
    operands.correct[row] = target_logit == sums.largest ? 1.0f : 0.0f;
    if (operands.targets[row] == CrossEntropy::no_target)
      operands.loss[row] = operands.nll[row] = operands.correct[row] = 0;
  }
  if (operands.predicted != nullptr) {
    const int place = first_place<n>(x, width, sums.largest);
    if (threadIdx.x == 0) operands.predicted[row] = operands.targets[row] == CrossEntropy::no_target ? 0 : place;
  }
  // Every thread is past the reductions, so nobody reads what another overwrites in place.
  if (operands.dlogits != nullptr) write_gradient<n>(operands, row, width, target, target_logit, sums, scale);
}

template <class T>
struct DivergenceOperands {
  const T *first, *second;
  std::int64_t first_stride, second_stride;
  const int* targets;
  T *dfirst, *dsecond;
  std::int64_t dfirst_stride, dsecond_stride;
  float* loss;
  float gradient_scale;
  const float* scale_place;  // as in LossOperands
};

/// Log-probabilities of a row of logits.
struct LogProbabilities {
  __device__ explicit LogProbabilities(const LogitSums& sums) : largest(sums.largest), log_sum(sums.log_sum()) {}
  __device__ float of(float x) const { return (x - largest) - log_sum; }
  float largest, log_sum;
};

/// A block of threads for a row, whose threads take one column at a time after the sums.
template <int n, class T>
__global__ void __launch_bounds__(row_threads) divergence_kernel(DivergenceOperands<T> operands, int width) {
  await_earlier_kernels();
  const std::int64_t row = blockIdx.x;
  if (operands.targets[row] == CrossEntropy::no_target) {
    if (threadIdx.x == 0) operands.loss[row] = 0;
    return;
  }
  const T *x = operands.first + row * operands.first_stride, *y = operands.second + row * operands.second_stride;
  LogitSums own_x, own_y;
  for_own_pieces<n>(x, width, [&](const auto& pieces, int) { own_x.add(pieces); });
  for_own_pieces<n>(y, width, [&](const auto& pieces, int) { own_y.add(pieces); });
  const LogProbabilities first(own_x.of_block()), second(own_y.of_block());
  float from_first = 0, from_second = 0;  // KL(p || q), KL(q || p)
  for (int i = static_cast<int>(threadIdx.x); i < width; i += row_threads) {
    const float log_p = first.of(widen(x[i])), log_q = second.of(widen(y[i]));
    from_first = fmaf(exp2_approx(log_p * log2_e), log_p - log_q, from_first);
    from_second = fmaf(exp2_approx(log_q * log2_e), log_q - log_p, from_second);
  }
  from_first = block_reduce<row_threads>(from_first, Plus());
  from_second = block_reduce<row_threads>(from_second, Plus());
  if (threadIdx.x == 0) operands.loss[row] = from_first + from_second;
  const float scale = operands.scale_place != nullptr ? *operands.scale_place : operands.gradient_scale;
  T *dx = operands.dfirst + row * operands.dfirst_stride, *dy = operands.dsecond + row * operands.dsecond_stride;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += row_threads) {
    const float log_p = first.of(widen(x[i])), log_q = second.of(widen(y[i])), difference = log_p - log_q;
    const float p = exp2_approx(log_p * log2_e), q = exp2_approx(log_q * log2_e);
    dx[i] = narrow<T>(fmaf(fmaf(p, difference - from_first, p - q), scale, widen(dx[i])));
    dy[i] = narrow<T>(fmaf(fmaf(-q, difference + from_second, q - p), scale, widen(dy[i])));
  }
}

/// Finds the k best elements, one after another: each time the first element that ranks behind the last found one.
template <int n, class T>
__global__ void __launch_bounds__(row_threads)
    top_k_kernel(const T* logits, int width, float* scores, int* indices, int k, float* all) {
  await_earlier_kernels();
  const std::int64_t row = blockIdx.x;
  const T* x = logits + row * width;
  LogitSums own;
  for_own_pieces<n>(x, width, [&](const auto& pieces, int) { own.add(pieces); });
  const LogitSums sums = own.of_block();
  Ranked best{INFINITY, -1};
  for (int found = 0; found < k; ++found) {
    Ranked next{-INFINITY, INT_MAX};
    for_own_pieces<n>(x, width, [&](const auto& pieces, int column) {
      for (const auto& values : pieces) {
#pragma unroll
        for (int e = 0; e < n; ++e) {
          const Ranked one = ranked(values[e], column + e);
          if (ranks_before(best, one) && ranks_before(one, next)) next = one;
        }
        column += piece_step<n>;
      }
    });
    best = block_first(next);
    if (threadIdx.x != 0) continue;
    scores[row * k + found] = best.value - sums.largest - sums.log_sum();
    indices[row * k + found] = best.place;
  }
  if (all == nullptr) return;
  for (int i = static_cast<int>(threadIdx.x); i < width; i += row_threads) {
    all[row * width + i] = widen(x[i]) - sums.largest - sums.log_sum();
  }
}

}  // namespace

void run(const CrossEntropy& op, CudaContext& context) {
  const std::int64_t rows = op.logits.shape[0];
  if (rows == 0) return;
  with_device_type(op.logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    RepeatValues& values = context.values();
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
                                   .gradient_scale = values.active() ? 0 : op.gradient_scale,
                                   .scale_place = values.active() ? values.number(op.gradient_scale) : nullptr};
    with_pieces<T>({op.logits.shape[1], op.logits.row_stride, op.dlogits ? op.dlogits.row_stride : 0},
                   {op.logits.data, op.dlogits.data}, [&](auto n) {
                     launch(op.name, {static_cast<unsigned>(rows), row_threads, context.stream()},
                            cross_entropy_kernel<n, T>, operands, static_cast<int>(op.logits.shape[1]),
                            context.index_error());
                   });
  });
}

void run(const SymmetricDivergence& op, CudaContext& context) {
  const std::int64_t rows = op.first.shape[0];
  if (rows == 0) return;
  with_device_type(op.first.dtype, [&](auto tag) {
    using T = decltype(tag);
    RepeatValues& values = context.values();
    const DivergenceOperands<T> operands{.first = op.first.as<T>(),
                                         .second = op.second.as<T>(),
                                         .first_stride = op.first.row_stride,
                                         .second_stride = op.second.row_stride,
                                         .targets = op.targets.as<int>(),
                                         .dfirst = op.dfirst.as<T>(),
                                         .dsecond = op.dsecond.as<T>(),
                                         .dfirst_stride = op.dfirst.row_stride,
                                         .dsecond_stride = op.dsecond.row_stride,
                                         .loss = op.loss.as<float>(),
                                         .gradient_scale = values.active() ? 0 : op.gradient_scale,
                                         .scale_place = values.active() ? values.number(op.gradient_scale) : nullptr};
    with_pieces<T>({op.first.shape[1], op.first.row_stride, op.second.row_stride}, {op.first.data, op.second.data},
                   [&](auto n) {
                     launch(op.name, {static_cast<unsigned>(rows), row_threads, context.stream()},
                            divergence_kernel<n, T>, operands, static_cast<int>(op.first.shape[1]));
                   });
  });
}

void run(const LogSoftmaxTopK& op, CudaContext& context) {
  const std::int64_t rows = op.logits.shape[0];
  if (rows == 0) return;
  with_device_type(op.logits.dtype, [&](auto tag) {
    using T = decltype(tag);
    with_pieces<T>({op.logits.shape[1]}, {op.logits.data}, [&](auto n) {
      launch(op.name, {static_cast<unsigned>(rows), row_threads, context.stream()}, top_k_kernel<n, T>,
             op.logits.as<T>(), static_cast<int>(op.logits.shape[1]), op.scores.as<float>(), op.indices.as<int>(),
             static_cast<int>(op.scores.shape[1]), op.all ? op.all.as<float>() : nullptr);
    });
  });
}

}  // namespace babelring::cuda
