#include "nmt/ops/adam.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

constexpr std::int64_t block = SquaredNorm::block;  // elements that a thread takes at a time

/// Calls body(first, count) for the blocks of `count` elements.
template <class Body>
void for_blocks(std::int64_t count, CpuContext& workspace, Body&& body) {
  const std::int64_t blocks = SquaredNorm::blocks(count);
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(count))
  for (std::int64_t b = 0; b < blocks; ++b) body(b * block, std::min(block, count - b * block));
}

/// Calls body(first, elements, treatment) for the stretches of `count` elements from `begin` on that are treated alike.
template <class Body>
void for_treatments(const ConstTensor& treatment, std::int64_t begin, std::int64_t count, Body&& body) {
  if (!treatment) return body(begin, count, AdamUpdate::decayed);
  const auto* of = treatment.as<std::int32_t>();
  const std::int64_t end = begin + count;
  for (std::int64_t first = begin, next = begin; first < end; first = next) {
    const std::int32_t kind = of[first / AdamUpdate::treatment_block];
    while (next < end && of[next / AdamUpdate::treatment_block] == kind) next += AdamUpdate::treatment_block;
    body(first, std::min(next, end) - first, kind);
  }
}

/// Where the rounded masters go: nowhere in f32 mode; past the caches where lines are whole.
class Compute {
 public:
  explicit Compute(const Tensor& compute)
      : values_(compute ? compute.as<BFloat16>() : nullptr),
        aligned_(reinterpret_cast<std::uintptr_t>(values_) % (lane_count * sizeof(BFloat16)) == 0) {}
  template <class Which>
  void store(std::int64_t i, Vec16f master, Which mask) const {
    if (values_ == nullptr) return;
    if constexpr (std::is_same_v<Which, AllLanes>) {
      if (aligned_) return stream_lanes(values_ + i, master);
    }
    store_lanes(values_ + i, master, mask);
  }

 private:
  BFloat16* values_;
  bool aligned_;
};

/// The scalars of the formula, folded: direction = m' / (sqrt(v' v_correction) + eps), m' scaled by the rate too.
struct Step {
  Step(const AdamUpdate& op, float clip_factor)
      : scale(broadcast(clip_factor)),
        beta1(broadcast(op.beta1)),
        rest1(broadcast(1 - op.beta1)),
        beta2(broadcast(op.beta2)),
        rest2(broadcast(1 - op.beta2)),
        v_correction(broadcast(correction(op.beta2, op.step))),
        rate(broadcast(-op.learning_rate * correction(op.beta1, op.step))),
        eps(broadcast(op.eps)),
        keep(broadcast(1 - op.learning_rate * op.weight_decay)) {}

  static float correction(float beta, std::int64_t step) {
    return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
  }
  Vec16f scale, beta1, rest1, beta2, rest2, v_correction, rate, eps, keep;
};

/// NaN: the update is to be skipped.
float clip_factor(const AdamUpdate& op) {
  if (!op.squares) return 1;
  const std::span sums(op.squares.as<float>(), static_cast<std::size_t>(op.squares.shape.elements()));
  return AdamUpdate::clip_factor(SquaredNorm::norm(sums), op.clip_norm);
}

/// Sums of squares of the blocks of `count` values that value(i, mask) gives, each asked for once.
template <class Value>
void find_norms(std::int64_t count, CpuContext& workspace, const Tensor& norms, Value&& value) {
  constexpr std::int64_t run_elements = 512;  // summed in f32, the rest in double
  for_blocks(count, workspace, [&](std::int64_t begin, std::int64_t elements) {
    double sum = 0;
    for (std::int64_t first = 0; first < elements; first += run_elements) {
      Vec16f squares = broadcast(0);
      for_lanes(std::min(run_elements, elements - first), [&](std::int64_t i, auto mask) {
        const Vec16f some = value(begin + first + i, mask);
        squares = multiply_add(some, some, squares);
      });
      sum += static_cast<double>(sum_of_lanes(squares));
    }
    norms.as<float>()[begin / block] = static_cast<float>(sum);
  });
}

}  // namespace

void run(const AdamUpdate& op, CpuContext& workspace) {
  const float factor = clip_factor(op);
  if (std::isnan(factor)) return;
  auto *masters = op.master.as<float>(), *first = op.m.as<float>(), *second = op.v.as<float>();
  const auto* gradient = op.gradient.as<float>();
  const Compute compute(op.compute);
  const Step step(op, factor);
  const auto update = [&](std::int64_t begin, std::int64_t count, std::int32_t treatment) {
    if (treatment == AdamUpdate::frozen) return;
    const Vec16f keep = treatment == AdamUpdate::decayed ? step.keep : broadcast(1);
    for_lanes(count, [&](std::int64_t place, auto mask) {
      const std::int64_t i = begin + place;
      const Vec16f g = load_lanes(gradient + i, mask) * step.scale;
      const Vec16f m = multiply_add(load_lanes(first + i, mask), step.beta1, g * step.rest1);
      const Vec16f v = multiply_add(load_lanes(second + i, mask), step.beta2, g * g * step.rest2);
      store_lanes(first + i, m, mask);
      store_lanes(second + i, v, mask);
      const Vec16f direction = m / (square_root(v * step.v_correction) + step.eps);
      const Vec16f master = multiply_add(direction, step.rate, load_lanes(masters + i, mask) * keep);
      store_lanes(masters + i, master, mask);
      compute.store(i, master, mask);
    });
  };
  for_blocks(op.master.shape.elements(), workspace,
             [&](std::int64_t begin, std::int64_t count) { for_treatments(op.treatment, begin, count, update); });
}

void run(const SquaredNorm& op, CpuContext& workspace) {
  const auto* x = op.x.as<float>();
  find_norms(op.x.shape.elements(), workspace, op.sums,
             [x](std::int64_t i, auto mask) { return load_lanes(x + i, mask); });
}

void run(const SumWithNorm& op, CpuContext& workspace) {
  std::vector<const float*> parts;
  for (const ConstTensor& part : op.parts) parts.push_back(part.as<float>());
  auto* sums = op.sum.as<float>();
  find_norms(op.sum.shape.elements(), workspace, op.norms, [&parts, sums](std::int64_t i, auto mask) {
    Vec16f sum = load_lanes(parts[0] + i, mask);
    for (std::size_t part = 1; part < parts.size(); ++part) sum = sum + load_lanes(parts[part] + i, mask);
    store_lanes(sums + i, sum, mask);
    return sum;
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
