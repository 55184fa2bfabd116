#include "nmt/ops/adam.h"

#include <cmath>
#include <cstring>

#include "nmt/ops/cuda/device_math.cuh"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"
#include "nmt/ops/cuda/pieces.cuh"

namespace babelring::cuda {

namespace {

/// The scalars of the formula but the clip factor, folded as on the CPU.
struct AdamStep {
  float beta1, rest1, beta2, rest2, v_correction, rate, eps, learning_rate, keep, average_rate;
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
          .learning_rate = op.learning_rate,
          .keep = 1 - op.learning_rate * op.weight_decay,
          .average_rate = op.average_rate};
}

struct AdamOperands {
  float* master;
  const float* gradient;
  float *first, *second;
  float* average;             // read where the kernel is `averaged`
  bfloat* compute;            // or null
  const std::int32_t* group;  // or null
  const AdamUpdate::Group* groups;
  const float* clip_factor;  // or null: 1; a NaN there: nothing changes
};

/// Counts nothing.
struct NoCounter {
  __device__ void count(float, float, float) {}
};

/// A lane's sums over its elements of a row's piece.
struct LaneCounter {
  /// Counts the change of a master. `gradient`: its gradient.
  __device__ void count(float before, float after, float gradient) {
    const bool differs = std::bit_cast<unsigned>(before) != std::bit_cast<unsigned>(after);
    const unsigned rounded = pack_bf16(before, after);
    changed += differs ? 1 : 0;
    visible |= copies ? (rounded & 0xffffU) != rounded >> 16 : differs;
    touched |= gradient != 0;
    const float difference = after - before;
    change = fmaf(difference, difference, change);
    weight = fmaf(before, before, weight);
  }

  bool copies;  // masters have bf16 copies
  bool visible = false, touched = false;
  int changed = 0;
  float change = 0, weight = 0;
};

/// Fused where it says so, so that an element's bits do not depend on n.
template <int n, bool averaged, class Counter>
__device__ void update_piece(const AdamOperands& operands, std::int64_t at, const AdamStep& step, float clip_factor,
                             Counter& counter) {
  float rate = step.rate, keep = step.keep;
  if (operands.group != nullptr) {
    const std::int32_t index = operands.group[at / AdamUpdate::group_block];
    if (index == AdamUpdate::frozen) return;
    const AdamUpdate::Group group = operands.groups[index];
    rate *= group.rate_factor;
    keep = 1.0f - __fmul_rn(step.learning_rate * group.rate_factor, group.weight_decay);
  }
  auto master = piece_at<n>(operands.master + at), first = piece_at<n>(operands.first + at),
       second = piece_at<n>(operands.second + at);
  const auto gradient = piece_at<n>(operands.gradient + at);
  Piece<bfloat, n> compute;
#pragma unroll
  for (int e = 0; e < n; ++e) {
    const float g = gradient.of[e] * clip_factor;
    const float m = fmaf(first.of[e], step.beta1, g * step.rest1);
    const float v = fmaf(second.of[e], step.beta2, g * g * step.rest2);
    const float ratio = m / (sqrtf(v * step.v_correction) + step.eps);
    const float updated = fmaf(ratio, rate, master.of[e] * keep);
    counter.count(master.of[e], updated, gradient.of[e]);
    first.of[e] = m, second.of[e] = v, master.of[e] = updated, compute.of[e] = narrow<bfloat>(updated);
  }
  put_piece(operands.first + at, first);
  put_piece(operands.second + at, second);
  put_piece(operands.master + at, master);
  if (operands.compute != nullptr) put_piece(operands.compute + at, compute);
  if constexpr (!averaged) return;
  auto average = piece_at<n>(operands.average + at);
#pragma unroll
  for (int e = 0; e < n; ++e) {
    average.of[e] = fmaf(master.of[e] - average.of[e], step.average_rate, average.of[e]);
  }
  put_piece(operands.average + at, average);
}

/// Pieces of n elements, and the rest of `count` one by one. `averaged`: also the average of the masters. Without it,
/// it costs no registers.
template <int n, bool averaged>
__global__ void adam_kernel(AdamOperands operands, std::int64_t count, AdamStep step) {
  await_earlier_kernels();
  const float factor = operands.clip_factor != nullptr ? *operands.clip_factor : 1.0f;
  if (isnan(factor)) return;
  const std::int64_t whole = count / n * n;
  NoCounter none;
  for (std::int64_t i = first_element() * n; i < whole; i += element_step() * n) {
    update_piece<n, averaged>(operands, i, step, factor, none);
  }
  for (std::int64_t i = whole + first_element(); i < count; i += element_step()) {
    update_piece<1, averaged>(operands, i, step, factor, none);
  }
}

struct CountedRows {
  const std::int32_t* blocks;
  const RowPiece* pieces;
  RowCount* counts;
  RowPart* parts;
};

/// Like finish_piece() of the CPU, by one lane. The other pieces' sums come from blocks of threads that run at the same
/// time: they are read past the caches.
__device__ void finish_piece(const CountedRows& rows, const RowPiece& piece, const RowPart& sums) {
  RowPart row = sums;
  if (piece.parts > 1) {
    RowPart* parts = rows.parts + piece.first_part;
    parts[piece.part].set(sums);
    __threadfence();
    if (atomicAdd(&parts->arrived, 1) + 1 < piece.parts) return;
    __threadfence();
    row = RowPart();
    for (int part = 0; part < piece.parts; ++part) {
      const volatile RowPart& next = parts[part];
      row.add({.change = next.change,
               .weight = next.weight,
               .changed_elements = next.changed_elements,
               .visible = next.visible,
               .touched = next.touched});
    }
    parts->arrived = 0;
  }
  count_update(rows.counts[piece.row], row, sqrt(row.change / row.weight));
}

/// A block of threads takes a SquaredNorm::block, each of its warps one piece of a row after the other: n elements at a
/// time where the piece allows it.
template <int n, bool averaged>
__global__ void counted_adam_kernel(AdamOperands operands, CountedRows rows, AdamStep step) {
  await_earlier_kernels();
  const float factor = operands.clip_factor != nullptr ? *operands.clip_factor : 1.0f;
  if (isnan(factor)) return;
  const int lane = threadIdx.x % warp_lanes, end = rows.blocks[blockIdx.x + 1];
  for (int i = rows.blocks[blockIdx.x] + threadIdx.x / warp_lanes; i < end; i += elementwise_threads / warp_lanes) {
    const RowPiece piece = rows.pieces[i];
    const std::int64_t begin = blockIdx.x * SquaredNorm::block + piece.begin;
    LaneCounter lanes{.copies = operands.compute != nullptr};
    if (piece.begin % n == 0 && piece.count % n == 0) {
      for (int e = lane * n; e < piece.count; e += warp_lanes * n) {
        update_piece<n, averaged>(operands, begin + e, step, factor, lanes);
      }
    } else {
      for (int e = lane; e < piece.count; e += warp_lanes)
        update_piece<1, averaged>(operands, begin + e, step, factor, lanes);
    }
    NoCounter none;
    for (int e = lane; e < piece.padding; e += warp_lanes) {
      update_piece<1, averaged>(operands, begin + piece.count + e, step, factor, none);
    }
    RowPart sums;
    sums.change = static_cast<double>(warp_sum(lanes.change));
    sums.weight = static_cast<double>(warp_sum(lanes.weight));
    sums.changed_elements = static_cast<int>(warp_sum(static_cast<float>(lanes.changed)));  // below 2^24: exact
    sums.visible = __any_sync(all_lanes, lanes.visible) ? 1 : 0;
    sums.touched = __any_sync(all_lanes, lanes.touched) ? 1 : 0;
    if (lane == 0) finish_piece(rows, piece, sums);
  }
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
  await_earlier_kernels();
  double sum = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += elementwise_threads) sum += static_cast<double>(squares[i]);
  sum = sum_of_threads(sum);
  if (threadIdx.x == 0) *factor = AdamUpdate::clip_factor(sqrt(sum), clip_norm);
}

/// One block of threads for a SquaredNorm::block. `parts` are pointers to `count` elements each, added in order; the
/// sums go to `sum` unless it is null.
__global__ void norm_kernel(const float* const* parts, int part_count, const float* only_part, float* sum,
                            std::int64_t count, float* norms) {
  await_earlier_kernels();
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

/// A block of threads for each SquaredNorm::block.
LaunchShape block_place(std::int64_t count, const CudaContext& context) {
  return {static_cast<unsigned>(SquaredNorm::blocks(count)), elementwise_threads, context.stream()};
}

}  // namespace

void run(const AdamUpdate& op, CudaContext& context) {
  const std::int64_t count = op.master.shape.elements();
  if (count == 0) return;
  const Arena::Scope scope(context.scratch());
  float* factor = nullptr;
  if (op.squares) {
    factor = context.scratch().make(Shape{1}, DType::f32).as<float>();
    launch("clip_factor", {1, elementwise_threads, context.stream()}, clip_factor_kernel, op.squares.as<float>(),
           op.squares.shape.elements(), op.clip_norm, factor);
  }
  const AdamOperands operands{.master = op.master.as<float>(),
                              .gradient = op.gradient.as<float>(),
                              .first = op.m.as<float>(),
                              .second = op.v.as<float>(),
                              .average = op.average ? op.average.as<float>() : nullptr,
                              .compute = op.compute ? op.compute.as<bfloat>() : nullptr,
                              .group = op.group ? op.group.as<std::int32_t>() : nullptr,
                              .groups = op.group ? op.groups.as<AdamUpdate::Group>() : nullptr,
                              .clip_factor = factor};
  const CountedRows rows{.blocks = op.rows.blocks.as<std::int32_t>(),
                         .pieces = op.rows.pieces.as<RowPiece>(),
                         .counts = op.rows.counts.as<RowCount>(),
                         .parts = op.rows.parts.as<RowPart>()};
  with_pieces<float>(
      {}, {operands.master, operands.gradient, operands.first, operands.second, operands.average, operands.compute},
      [&](auto n) {
        const auto update = [&](auto averaged) {
          if (op.rows) {
            return launch("counted_adam", block_place(count, context), counted_adam_kernel<n, averaged>, operands, rows,
                          folded(op));
          }
          launch(op.name, {elementwise_blocks((count + n - 1) / n), elementwise_threads, context.stream()},
                 adam_kernel<n, averaged>, operands, count, folded(op));
        };
        op.average ? update(std::true_type()) : update(std::false_type());
      });
}

void run(const SquaredNorm& op, CudaContext& context) {
  const std::int64_t count = op.x.shape.elements();
  if (count == 0) return;
  launch("squared_norm", block_place(count, context), norm_kernel, nullptr, 1, op.x.as<float>(), nullptr, count,
         op.sums.as<float>());
}

void run(const SumWithNorm& op, CudaContext& context) {
  const std::int64_t count = op.sum.shape.elements();
  if (count == 0) return;
  std::vector<const float*> parts;
  for (const ConstTensor& part : op.parts) parts.push_back(part.as<float>());
  std::vector<std::int32_t> words(parts.size() * sizeof(parts[0]) / sizeof(std::int32_t));
  std::memcpy(words.data(), parts.data(), parts.size() * sizeof(parts[0]));
  const auto* on_device = reinterpret_cast<const float* const*>(context.lists().on_device(words));
  launch("sum_with_norm", block_place(count, context), norm_kernel, on_device, static_cast<int>(parts.size()), nullptr,
         op.sum.as<float>(), count, op.norms.as<float>());
}

}  // namespace babelring::cuda
