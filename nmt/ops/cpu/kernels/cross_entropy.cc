#include "nmt/ops/cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

struct RowSums {
  float largest = 0;
  double elements = 0, exponentials = 0;  // of x, and of e^(x - largest)
};

/// Calls body(first, end) for blocks of a row: their sums are taken in f32, those of the blocks in double.
template <class Body>
[[gnu::always_inline]] inline void for_blocks(std::int64_t width, Body&& body) {
  constexpr std::int64_t block = 1024;
  for (std::int64_t first = 0; first < width; first += block) body(first, std::min(width, first + block));
}

/// e^(x - largest): 1 for the largest itself.
struct Exponent {
  explicit Exponent(float value) : largest(broadcast(value)) {}
  Vec16f power(Vec16f x) const { return power_of_two((x - largest) * broadcast(std::numbers::log2e_v<float>)); }
  Vec16f largest;
};

/// The sum of exp(x - largest) over a row. `largest`: its largest element.
template <class T>
double sum_of_exponentials(const T* x, std::int64_t width, float largest) {
  const Exponent exponent(largest);
  double sum = 0;
  for_blocks(width, [&](std::int64_t first, std::int64_t end) {
    Vec16f total = broadcast(0);
    for_lanes(end - first, [&](std::int64_t i, auto mask) {
      total = total + select(mask, exponent.power(load_lanes(x + first + i, mask)));
    });
    sum += static_cast<double>(sum_of_lanes(total));
  });
  return sum;
}

/// Reads the row twice: the second time it comes from the cache.
template <class T>
RowSums sums_of_row(const T* x, std::int64_t width) {
  RowSums sums;
  const Vec16f nothing = broadcast(-INFINITY);
  Vec16f largest = nothing;
  for_blocks(width, [&](std::int64_t first, std::int64_t end) {
    Vec16f total = broadcast(0);
    for_lanes(end - first, [&](std::int64_t i, auto mask) {
      const Vec16f value = load_lanes(x + first + i, mask);
      largest = maximum(select(mask, value, nothing), largest);
      total = total + value;
    });
    sums.elements += static_cast<double>(sum_of_lanes(total));
  });
  sums.largest = largest_lane(largest);
  sums.exponentials = sum_of_exponentials(x, width, sums.largest);
  return sums;
}

/// gradient = e^(x - largest) to_p - spread; may be x.
template <class T>
void write_gradient(const T* x, T* gradient, std::int64_t width, float largest, float to_p, float spread) {
  const Exponent exponent(largest);
  const Vec16f factor = broadcast(to_p), less = broadcast(-spread);
  for_lanes(width, [&](std::int64_t i, auto mask) {
    __builtin_prefetch(x + width + i, 1, 2);  // the next row
    const Vec16f power = exponent.power(load_lanes(x + i, mask));
    store_lanes(gradient + i, multiply_add(power, factor, less), mask);
  });
}

/// The first place of the row where it has `value`; 0 if there is none, as in a row that is not finite.
template <class T>
std::int32_t first_place(const T* x, std::int64_t width, float value) {
  constexpr std::int64_t block = 256;  // without an early end within, so that it goes by lanes
  for (std::int64_t first = 0; first < width; first += block) {
    const std::int64_t end = std::min(width, first + block);
    int found = 0;
#pragma omp simd reduction(| : found)
    for (std::int64_t i = first; i < end; ++i) found |= static_cast<int>(load(x[i]) == value);
    if (found == 0) continue;
    while (load(x[first]) != value) ++first;
    return static_cast<std::int32_t>(first);
  }
  return 0;
}

template <class T>
void no_loss(const CrossEntropy& op, std::int64_t row) {
  for (const Tensor& result : {op.loss, op.nll, op.correct}) result.as<float>()[row] = 0;
  if (op.predicted) op.predicted.as<std::int32_t>()[row] = 0;
  if (op.dlogits) std::fill_n(op.dlogits.as<T>() + row * op.dlogits.row_stride, op.dlogits.shape[1], rounded<T>(0));
}

template <class T>
void row_loss(const CrossEntropy& op, std::int64_t row) {
  const std::int64_t width = op.logits.shape[1], target = op.targets.as<std::int32_t>()[row];
  if (target == CrossEntropy::no_target) return no_loss<T>(op, row);
  const T* x = op.logits.as<T>() + row * op.logits.row_stride;
  const float target_logit = load(x[target]);
  const RowSums sums = sums_of_row(x, width);
  const double log_sum = std::log(sums.exponentials) + static_cast<double>(sums.largest);
  const double nll = log_sum - static_cast<double>(target_logit);
  const double uniform = log_sum - sums.elements / static_cast<double>(width);  // mean of -log p
  const auto smoothing = static_cast<double>(op.smoothing);
  op.nll.as<float>()[row] = static_cast<float>(nll);
  op.loss.as<float>()[row] = static_cast<float>((1 - smoothing) * nll + smoothing * uniform);
  op.correct.as<float>()[row] = target_logit == sums.largest ? 1.0f : 0.0f;
  if (op.predicted) op.predicted.as<std::int32_t>()[row] = first_place(x, width, sums.largest);
  if (!op.dlogits) return;
  T* gradient = op.dlogits.as<T>() + row * op.dlogits.row_stride;
  const float spread = op.gradient_scale * op.smoothing / static_cast<float>(width);
  write_gradient(x, gradient, width, sums.largest, op.gradient_scale / static_cast<float>(sums.exponentials), spread);
  const auto p = static_cast<float>(std::exp(-nll));
  gradient[target] = rounded<T>(op.gradient_scale * p - spread - op.gradient_scale * (1 - op.smoothing));
}

/// Log-probabilities of a row: x - largest - log_sum.
struct RowOfLogits {
  template <class T>
  RowOfLogits(const T* x, std::int64_t width) {
    const RowSums sums = sums_of_row(x, width);
    less = broadcast(sums.largest);
    log_sum = broadcast(static_cast<float>(std::log(sums.exponentials)));
  }
  Vec16f log_p(Vec16f x) const { return (x - less) - log_sum; }
  Vec16f less, log_sum;
};

Vec16f exponential(Vec16f x) {
  return power_of_two(x * broadcast(std::numbers::log2e_v<float>));
}

template <class T>
void row_divergence(const SymmetricDivergence& op, std::int64_t row) {
  op.loss.as<float>()[row] = 0;
  if (op.targets.as<std::int32_t>()[row] == CrossEntropy::no_target) return;
  const std::int64_t width = op.first.shape[1];
  const T* x = op.first.as<T>() + row * op.first.row_stride;
  const T* y = op.second.as<T>() + row * op.second.row_stride;
  const RowOfLogits first(x, width), second(y, width);
  double from_first = 0, from_second = 0;  // KL(p || q), KL(q || p)
  for_blocks(width, [&](std::int64_t begin, std::int64_t end) {
    Vec16f of_p = broadcast(0), of_q = broadcast(0);
    for_lanes(end - begin, [&](std::int64_t i, auto mask) {
      const Vec16f log_p = first.log_p(load_lanes(x + begin + i, mask));
      const Vec16f log_q = second.log_p(load_lanes(y + begin + i, mask));
      of_p = of_p + select(mask, exponential(log_p) * (log_p - log_q));
      of_q = of_q + select(mask, exponential(log_q) * (log_q - log_p));
    });
    from_first += static_cast<double>(sum_of_lanes(of_p));
    from_second += static_cast<double>(sum_of_lanes(of_q));
  });
  op.loss.as<float>()[row] = static_cast<float>(from_first + from_second);
  T* dx = op.dfirst.as<T>() + row * op.dfirst.row_stride;
  T* dy = op.dsecond.as<T>() + row * op.dsecond.row_stride;
  const Vec16f scale = broadcast(op.gradient_scale), mean_p = broadcast(static_cast<float>(from_first)),
               mean_q = broadcast(static_cast<float>(from_second));
  for_lanes(width, [&](std::int64_t i, auto mask) {
    const Vec16f log_p = first.log_p(load_lanes(x + i, mask)), log_q = second.log_p(load_lanes(y + i, mask));
    const Vec16f p = exponential(log_p), q = exponential(log_q), difference = log_p - log_q;
    const Vec16f to_x = p * (difference - mean_p) + (p - q), to_y = (q - p) - q * (difference + mean_q);
    store_lanes(dx + i, multiply_add(to_x, scale, load_lanes(dx + i, mask)), mask);
    store_lanes(dy + i, multiply_add(to_y, scale, load_lanes(dy + i, mask)), mask);
  });
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
void row_top_k(const LogSoftmaxTopK& op, std::int64_t row) {
  constexpr std::int64_t block = 128;  // blocks without a candidate are passed over by their largest element
  const std::int64_t width = op.logits.shape[1], k = op.scores.shape[1];
  const T* x = op.logits.as<T>() + row * width;
  float* scores = op.scores.as<float>() + row * k;
  Best best(scores, op.indices.as<std::int32_t>() + row * k, k);
  const Vec16f nothing = broadcast(-INFINITY);
  for (std::int64_t first = 0; first < width; first += block) {
    const std::int64_t end = std::min(width, first + block);
    Vec16f largest = nothing;
    for_lanes(end - first, [&](std::int64_t i, auto mask) {
      largest = maximum(select(mask, load_lanes(x + first + i, mask), nothing), largest);
    });
    if (best.full() && !(largest_lane(largest) > best.least())) continue;
    for (std::int64_t i = first; i < end; ++i) best.offer(load(x[i]), i);
  }
  const float largest = scores[0];
  const auto log_sum_exp = static_cast<float>(std::log(sum_of_exponentials(x, width, largest))) + largest;
  for (std::int64_t i = 0; i < k; ++i) scores[i] -= log_sum_exp;
  if (!op.all) return;
  float* all = op.all.as<float>() + row * width;
  const Vec16f less = broadcast(log_sum_exp);
  for_lanes(width, [&](std::int64_t i, auto mask) { store_lanes(all + i, load_lanes(x + i, mask) - less, mask); });
}

}  // namespace

void run(const CrossEntropy& op, CpuContext& context) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  check_indices(op.name, "targets", op.targets, width, CrossEntropy::no_target);
  with_float_type(op.logits.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) row_loss<decltype(tag)>(op, row);
  });
}

void run(const SymmetricDivergence& op, CpuContext& context) {
  const std::int64_t rows = op.first.shape[0], width = op.first.shape[1];
  with_float_type(op.first.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) row_divergence<decltype(tag)>(op, row);
  });
}

void run(const LogSoftmaxTopK& op, CpuContext& context) {
  const std::int64_t rows = op.logits.shape[0], width = op.logits.shape[1];
  with_float_type(op.logits.dtype, [&](auto tag) {
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) row_top_k<decltype(tag)>(op, row);
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
