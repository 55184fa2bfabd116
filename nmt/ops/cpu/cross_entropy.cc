#include "nmt/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

namespace {

struct ExponentialSums {
  float exponentials = 0, shifted = 0;
};

/// x - largest over the row and the sum of its exponentials, which replace x if `keep`. In blocks, so that the sums of
/// a long row are as good without vectors as with them.
template <bool keep>
ExponentialSums exponential_sums(float* __restrict x, std::int64_t width, float largest) {
  constexpr std::int64_t block = 1024;
  double exponentials = 0, shifted = 0;
  for (std::int64_t first = 0; first < width; first += block) {
    float block_exponentials = 0, block_shifted = 0;
#pragma omp simd reduction(+ : block_exponentials, block_shifted)
    for (std::int64_t i = first; i < std::min(width, first + block); ++i) {
      const float value = x[i] - largest, power = exponential(value);
      block_shifted += value;
      block_exponentials += power;
      if constexpr (keep) x[i] = power;
    }
    exponentials += static_cast<double>(block_exponentials);
    shifted += static_cast<double>(block_shifted);
  }
  return {static_cast<float>(exponentials), static_cast<float>(shifted)};
}

/// One row; `p` is scratch of `width` floats.
template <class T>
void row_loss(const CrossEntropy& op, std::int64_t row, float* __restrict p) {
  const std::int64_t width = op.logits.shape[1], target = op.targets.as<std::int32_t>()[row];
  widen(op.logits.as<T>() + row * width, p, width);
  const float target_logit = p[target];
  float largest = p[0];
#pragma omp simd reduction(max : largest)
  for (std::int64_t i = 0; i < width; ++i) largest = p[i] > largest ? p[i] : largest;
  const auto [sum, logits] = exponential_sums<true>(p, width, largest);
  const float log_sum = std::log(sum), nll = log_sum - (target_logit - largest);
  const float uniform = log_sum - logits / static_cast<float>(width);  // mean of -log p
  op.nll.as<float>()[row] = nll;
  op.loss.as<float>()[row] = (1 - op.smoothing) * nll + op.smoothing * uniform;
  op.correct.as<float>()[row] = target_logit == largest ? 1.0f : 0.0f;
  if (!op.dlogits) return;
  T* gradient = op.dlogits.as<T>() + row * width;
  const float to_p = op.gradient_scale / sum;
  const float share = op.gradient_scale * op.smoothing / static_cast<float>(width);
  const float at_target = p[target] * to_p - share - op.gradient_scale * (1 - op.smoothing);
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) gradient[i] = rounded<T>(p[i] * to_p - share);
  gradient[target] = rounded<T>(at_target);
}

/// The k best so far, in falling order. Offered in rising order of index, so an equal score stays behind.
class Best {
 public:
  Best(float* scores, std::int32_t* indices, std::int64_t k) : scores_(scores), indices_(indices), k_(k) {}
  float least() const { return count_ < k_ ? -INFINITY : scores_[k_ - 1]; }
  bool full() const { return count_ == k_; }
  void offer(float score, std::int64_t index) {
    if (full() && !(score > scores_[k_ - 1])) return;
    std::int64_t place = full() ? k_ - 1 : count_++;
    for (; place > 0 && score > scores_[place - 1]; --place) {
      scores_[place] = scores_[place - 1];
      indices_[place] = indices_[place - 1];
    }
    scores_[place] = score;
    indices_[place] = static_cast<std::int32_t>(index);
  }

 private:
  float* scores_;
  std::int32_t* indices_;
  std::int64_t k_, count_ = 0;
};

template <class T>
void row_top_k(const LogSoftmaxTopK& op, std::int64_t row, float* __restrict x) {
  constexpr std::int64_t block = 128;  // blocks without a candidate are passed over by their largest element
  const std::int64_t width = op.logits.shape[1], k = op.scores.shape[1];
  widen(op.logits.as<T>() + row * width, x, width);
  float* scores = op.scores.as<float>() + row * k;
  Best best(scores, op.indices.as<std::int32_t>() + row * k, k);
  for (std::int64_t first = 0; first < width; first += block) {
    const std::int64_t end = std::min(width, first + block);
    float largest = x[first];
#pragma omp simd reduction(max : largest)
    for (std::int64_t i = first; i < end; ++i) largest = x[i] > largest ? x[i] : largest;
    if (best.full() && !(largest > best.least())) continue;
    for (std::int64_t i = first; i < end; ++i) best.offer(x[i], i);
  }
  const float largest = scores[0];
  const float sum = exponential_sums<false>(x, width, largest).exponentials;
  const float log_sum_exp = largest + std::log(sum);
  for (std::int64_t i = 0; i < k; ++i) scores[i] -= log_sum_exp;
}

}  // namespace

void run(const CrossEntropy& op, Workspace& workspace) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  check_indices(op.name, "targets", op.targets, width);
  const auto scratch = workspace.per_thread(width);
  with_float_type(op.logits.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) row_loss<decltype(tag)>(op, row, scratch.of_this_thread());
  });
}

void run(const LogSoftmaxTopK& op, Workspace& workspace) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  const auto scratch = workspace.per_thread(width);
  with_float_type(op.logits.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) row_top_k<decltype(tag)>(op, row, scratch.of_this_thread());
  });
}

}  // namespace babelring::cpu
