#include "nmt/ops/adam.h"

#include <cmath>
#include <cstring>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"

namespace babelring::cuda {

namespace {

/// The scalars of the formula, folded as on the CPU.
struct AdamStep {
  float scale, beta1, rest1, beta2, rest2, v_correction, rate, eps, keep;
};

float bias_correction(float beta, std::int64_t step) {
  return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
}

AdamStep folded(const AdamUpdate& op) {
  return {.scale = op.gradient_scale,
          .beta1 = op.beta1,
          .rest1 = 1 - op.beta1,
          .beta2 = op.beta2,
          .rest2 = 1 - op.beta2,
          .v_correction = bias_correction(op.beta2, op.step),
          .rate = -op.learning_rate * bias_correction(op.beta1, op.step),
          .eps = op.eps,
          .keep = 1 - op.learning_rate * op.weight_decay};
}

__global__ void adam_kernel(float* master, const float* gradient, float* first, float* second, bfloat* compute,
                            std::int64_t count, AdamStep step) {
  for (std::int64_t i = first_element(); i < count; i += element_step()) {
    const float g = gradient[i] * step.scale;
    const float m = first[i] * step.beta1 + g * step.rest1;
    const float v = second[i] * step.beta2 + g * g * step.rest2;
    first[i] = m;
    second[i] = v;
    const float updated = m / (sqrtf(v * step.v_correction) + step.eps) * step.rate + master[i] * step.keep;
    master[i] = updated;
    if (compute != nullptr) compute[i] = narrow<bfloat>(updated);
  }
}

/// One block of threads for a SquaredNorm::block. `parts` are pointers to `count` elements each, added in order; the
/// sums go to `sum` unless it is null.
__global__ void norm_kernel(const float* const* parts, int part_count, const float* only_part, float* sum,
                            std::int64_t count, float* norms) {
  __shared__ double of_threads[elementwise_threads];
  const std::int64_t first = blockIdx.x * SquaredNorm::block;
  const std::int64_t end = first + SquaredNorm::block < count ? first + SquaredNorm::block : count;
  double squares = 0;
  for (std::int64_t i = first + threadIdx.x; i < end; i += elementwise_threads) {
    float value = only_part != nullptr ? only_part[i] : parts[0][i];
    for (int part = 1; part < part_count; ++part) value += parts[part][i];
    if (sum != nullptr) sum[i] = value;
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  of_threads[threadIdx.x] = squares;
  for (int half = elementwise_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) of_threads[threadIdx.x] += of_threads[threadIdx.x + half];
  }
  if (threadIdx.x == 0) norms[blockIdx.x] = static_cast<float>(of_threads[0]);
}

LaunchPlace norm_place(std::int64_t count, const Workspace& workspace) {
  return {static_cast<unsigned>(SquaredNorm::blocks(count)), elementwise_threads, workspace.stream()};
}

}  // namespace

void run(const AdamUpdate& op, Workspace& workspace) {
  const std::int64_t count = op.master.shape.elements();
  if (count == 0) return;
  launch("adam_update", {elementwise_blocks(count), elementwise_threads, workspace.stream()}, adam_kernel,
         op.master.as<float>(), op.gradient.as<float>(), op.m.as<float>(), op.v.as<float>(),
         op.compute ? op.compute.as<bfloat>() : nullptr, count, folded(op));
}

void run(const SquaredNorm& op, Workspace& workspace) {
  const std::int64_t count = op.x.shape.elements();
  if (count == 0) return;
  launch("squared_norm", norm_place(count, workspace), norm_kernel, nullptr, 1, op.x.as<float>(), nullptr, count,
         op.sums.as<float>());
}

void run(const SumWithNorm& op, Workspace& workspace) {
  const std::int64_t count = op.sum.shape.elements();
  if (count == 0) return;
  std::vector<const float*> parts;
  for (const ConstTensor& part : op.parts) parts.push_back(part.as<float>());
  std::vector<std::int32_t> words(parts.size() * sizeof(parts[0]) / sizeof(std::int32_t));
  std::memcpy(words.data(), parts.data(), parts.size() * sizeof(parts[0]));
  const auto* on_device = reinterpret_cast<const float* const*>(workspace.lists().on_device(words));
  launch("sum_with_norm", norm_place(count, workspace), norm_kernel, on_device, static_cast<int>(parts.size()), nullptr,
         op.sum.as<float>(), count, op.norms.as<float>());
}

}  // namespace babelring::cuda
