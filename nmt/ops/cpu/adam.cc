#include "nmt/ops/adam.h"

#include <algorithm>
#include <cmath>

#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

namespace {

/// Writes the rounded master, or nothing in f32 mode.
struct NoCompute {
  void store(std::int64_t, float) const {}
};
struct RoundedCompute {
  BFloat16* values;
  void store(std::int64_t i, float value) const { values[i] = BFloat16(value); }
};

template <class Compute>
void update(const AdamUpdate& op, Workspace& workspace, const Compute compute) {
  const std::int64_t count = op.master.shape.elements();
  float* __restrict master = op.master.as<float>(), * __restrict m = op.m.as<float>(), * __restrict v = op.v.as<float>();
  const float* __restrict gradient = op.gradient.as<float>();
  const auto step = static_cast<double>(op.step);
  const auto m_correction = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta1), step)));
  const auto v_correction = static_cast<float>(1 / (1 - std::pow(static_cast<double>(op.beta2), step)));
  const float beta1 = op.beta1, beta2 = op.beta2, eps = op.eps, decay = op.weight_decay, rate = op.learning_rate;
  const float gradient_scale = op.gradient_scale;
#pragma omp parallel for simd schedule(static) num_threads(workspace.threads_for(count))
  for (std::int64_t i = 0; i < count; ++i) {
    const float g = gradient_scale * gradient[i];
    const float first = beta1 * m[i] + (1 - beta1) * g;
    const float second = beta2 * v[i] + (1 - beta2) * g * g;
    m[i] = first;
    v[i] = second;
    const float direction = first * m_correction / (std::sqrt(second * v_correction) + eps);
    const float updated = master[i] - rate * (direction + decay * master[i]);
    master[i] = updated;
    compute.store(i, updated);
  }
}

}  // namespace

void run(const AdamUpdate& op, Workspace& workspace) {
  if (op.compute) {
    update(op, workspace, RoundedCompute{op.compute.as<BFloat16>()});
  } else {
    update(op, workspace, NoCompute{});
  }
}

void run(const SquaredNorm& op, Workspace& workspace) {
  // Blocks of fixed size, added in their order: the same sum for any number of threads.
  constexpr std::int64_t block = 16384;
  const std::int64_t count = op.x.shape.elements(), blocks = (count + block - 1) / block;
  const auto* x = op.x.as<float>();
  auto* partial = static_cast<double*>(static_cast<void*>(workspace.shared(2 * blocks)));
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(count))
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t end = std::min(count, (b + 1) * block);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = b * block; i < end; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    partial[b] = sum;
  }
  double sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b];
  *op.sum.as<float>() = static_cast<float>(sum);
}

}  // namespace babelring::cpu
