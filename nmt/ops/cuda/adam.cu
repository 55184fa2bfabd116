#include "nmt/ops/adam.h"

#include <cmath>
#include <cstring>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/kernels.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

/// The scalars of the formula but the clip factor, folded as on the CPU.
struct AdamStep {
  float beta1, rest1, beta2, rest2, v_correction, rate, eps, keep;
};

float bias_correction(float beta, std::int64_t step) {
  return static_cast<float>(1 / (1 - std::pow(static_cast<double>(beta), static_cast<double>(step))));
}

AdamStep folded(const AdamUpdate& op) {
  return {.beta1 = op.beta1,
          .rest1 = 1 - op.beta1,
          .beta2 = op.beta2,
          .rest2 = 1 - op.beta2,
          .v_correction = bias_correction(op.beta2, op.step),
          .rate = -op.learning_rate * bias_correction(op.beta1, op.step),
          .eps = op.eps,
          .keep = 1 - op.learning_rate * op.weight_decay};
}

struct AdamOperands {
  float* master;
  const float* gradient;
  float *first, *second;
  bfloat* compute;                // or null
  const std::int32_t* treatment;  // or null
  const float* clip_factor;       // or null: 1; a NaN there: nothing changes
};

/// Fused where it says so, so that an element's bits do not depend on n.
template <int n>
__device__ void update_piece(const AdamOperands& of, std::int64_t at, const AdamStep& step, float clip_factor) {
  const std::int32_t treatment = of.treatment != nullptr ? of.treatment[at / AdamUpdate::treatment_block] : 0;
  if (treatment == AdamUpdate::frozen) return;
  const float keep = treatment == AdamUpdate::decayed ? step.keep : 1.0f;
  auto master = piece_at<n>(of.master + at), first = piece_at<n>(of.first + at), second = piece_at<n>(of.second + at);
  const auto gradient = piece_at<n>(of.gradient + at);
  Piece<bfloat, n> compute;
#pragma unroll
  for (int e = 0; e < n; ++e) {
    const float g = gradient.of[e] * clip_factor;
    const float m = fmaf(first.of[e], step.beta1, g * step.rest1);
    const float v = fmaf(second.of[e], step.beta2, g * g * step.rest2);
    const float ratio = m / (sqrtf(v * step.v_correction) + step.eps);
    const float updated = fmaf(ratio, step.rate, master.of[e] * keep);
    first.of[e] = m, second.of[e] = v, master.of[e] = updated, compute.of[e] = narrow<bfloat>(updated);
  }
  put_piece(of.first + at, first);
  put_piece(of.second + at, second);
  put_piece(of.master + at, master);
  if (of.compute != nullptr) put_piece(of.compute + at, compute);
}

/// Pieces of n elements, and one by one what is left of `count`.
template <int n>
__global__ void adam_kernel(AdamOperands of, std::int64_t count, AdamStep step) {
  const float factor = of.clip_factor != nullptr ? *of.clip_factor : 1.0f;
  if (isnan(factor)) return;
  const std::int64_t whole = count / n * n;
  for (std::int64_t i = first_element() * n; i < whole; i += element_step() * n) update_piece<n>(of, i, step, factor);
  for (std::int64_t i = whole + first_element(); i < count; i += element_step()) update_piece<1>(of, i, step, factor);
}

/// Over the threads of a block of elementwise_threads, in a fixed order; the first thread has the result.
__device__ double sum_of_threads(double of_thread) {
  __shared__ double of_threads[elementwise_threads];
  of_threads[threadIdx.x] = of_thread;
  for (int half = elementwise_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) of_threads[threadIdx.x] += of_threads[threadIdx.x + half];
  }
  return threadIdx.x == 0 ? of_threads[0] : 0;
}

/// AdamUpdate::clip_factor() from `count` sums of squares, by one block.
__global__ void clip_factor_kernel(const float* squares, std::int64_t count, double clip_norm, float* factor) {
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += elementwise_threads) sum += static_cast<double>(squares[i]);
  sum = sum_of_threads(sum);
  if (threadIdx.x == 0) *factor = AdamUpdate::clip_factor(sqrt(sum), clip_norm);
}

/// One block of threads for a SquaredNorm::block. `parts` are pointers to `count` elements each, added in order; the
/// sums go to `sum` unless it is null.
__global__ void norm_kernel(const float* const* parts, int part_count, const float* only_part, float* sum,
                            std::int64_t count, float* norms) {
  const std::int64_t first = blockIdx.x * SquaredNorm::block;
  const std::int64_t end = first + SquaredNorm::block < count ? first + SquaredNorm::block : count;
  double squares = 0;
  for (std::int64_t i = first + threadIdx.x; i < end; i += elementwise_threads) {
    float value = only_part != nullptr ? only_part[i] : parts[0][i];
    for (int part = 1; part < part_count; ++part) value += parts[part][i];
    if (sum != nullptr) sum[i] = value;
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  squares = sum_of_threads(squares);
  if (threadIdx.x == 0) norms[blockIdx.x] = static_cast<float>(squares);
}

LaunchPlace norm_place(std::int64_t count, const CudaContext& workspace) {
  return {static_cast<unsigned>(SquaredNorm::blocks(count)), elementwise_threads, workspace.stream()};
}

}  // namespace

template <>
void run(const AdamUpdate& op, CudaContext& workspace) {
  const std::int64_t count = op.master.shape.elements();
  if (count == 0) return;
  const Arena::Scope scope(workspace.scratch());
  float* factor = nullptr;
  if (op.squares) {
    factor = workspace.scratch().make(Shape{1}, DType::f32).as<float>();
    launch("clip_factor", {1, elementwise_threads, workspace.stream()}, clip_factor_kernel, op.squares.as<float>(),
           op.squares.shape.elements(), op.clip_norm, factor);
  }
  const AdamOperands operands{.master = op.master.as<float>(),
                              .gradient = op.gradient.as<float>(),
                              .first = op.m.as<float>(),
                              .second = op.v.as<float>(),
                              .compute = op.compute ? op.compute.as<bfloat>() : nullptr,
                              .treatment = op.treatment ? op.treatment.as<std::int32_t>() : nullptr,
                              .clip_factor = factor};
  with_pieces<float>(
      {}, {operands.master, operands.gradient, operands.first, operands.second, operands.compute}, [&](auto n) {
        launch(op.name, {elementwise_blocks((count + n - 1) / n), elementwise_threads, workspace.stream()},
               adam_kernel<n>, operands, count, folded(op));
      });
}

template <>
void run(const SquaredNorm& op, CudaContext& workspace) {
  const std::int64_t count = op.x.shape.elements();
  if (count == 0) return;
  launch("squared_norm", norm_place(count, workspace), norm_kernel, nullptr, 1, op.x.as<float>(), nullptr, count,
         op.sums.as<float>());
}

template <>
void run(const SumWithNorm& op, CudaContext& workspace) {
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
