#include "nmt/ops/layer_norm.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

// Rows that go through each step together, so that no row's sums are waited for.
constexpr std::int64_t group_rows = 4;
// Rows of one partial sum over rows: fixed, so that threads change nothing.
constexpr std::int64_t block_rows = 64;

/// Prefetches what the next group will read or write at the same place: while a group's sums are waited for, memory
/// would be idle.
template <class T>
void prefetch_next_group(const T* here, std::int64_t width) {
  __builtin_prefetch(here + group_rows * width, 1, 2);
}

using GroupSums = std::array<float, group_rows>;

/// Some rows' inputs in f32, `width` apart, and their sums.
struct Group {
  std::int64_t row, count;
  float* x;
  GroupSums sums;
};

/// y and rstd of a group, and its mean if it is `centered`.
template <bool centered, class T, class Op>
void normalize(const Op& op, const Group& group) {
  const std::int64_t width = op.y.shape[1];
  const auto *gain = op.gain.template as<float>(), *bias = op.bias.template as<float>();
  std::array<float, group_rows> none{};
  auto *means = centered ? op.mean.template as<float>() + group.row : none.data(),
       *rstds = op.rstd.template as<float>() + group.row;
  for (std::int64_t r = 0; r < group.count; ++r) {
    if constexpr (centered) means[r] = group.sums[r] / static_cast<float>(width);
    const Vec16f mean = broadcast(means[r]);
    Vec16f squares = broadcast(0);
    for_lanes(width, [&](std::int64_t i, auto mask) {
      const Vec16f deviation = select(mask, load_lanes(group.x + r * width + i, mask) - mean);
      squares = multiply_add(deviation, deviation, squares);
    });
    rstds[r] = 1 / std::sqrt(sum_of_lanes(squares) / static_cast<float>(width) + op.eps);
  }
  for (std::int64_t r = 0; r < group.count; ++r) {
    const Vec16f mean = broadcast(means[r]), rstd = broadcast(rstds[r]);
    T* y = op.y.template as<T>() + (group.row + r) * width;
    for_lanes(width, [&](std::int64_t i, auto mask) {
      prefetch_next_group(y + i, width);
      const Vec16f n = (load_lanes(group.x + r * width + i, mask) - mean) * rstd, factor = load_lanes(gain + i, mask);
      store_lanes(y + i, centered ? multiply_add(n, factor, load_lanes(bias + i, mask)) : n * factor, mask);
    });
  }
}

/// Normalises all rows; fetch(row, to) writes the inputs of one to `to` and returns their sum.
template <class T, class Op, class Fetch>
void normalize_rows(const Op& op, CpuContext& context, Fetch&& fetch) {
  const std::int64_t rows = op.y.shape[0], width = op.y.shape[1], groups = (rows + group_rows - 1) / group_rows;
  const auto scratch = context.per_thread(group_rows * width);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
  for (std::int64_t index = 0; index < groups; ++index) {
    const std::int64_t row = index * group_rows;
    Group group{row, std::min(group_rows, rows - row), scratch.of_this_thread(), {}};
    for (std::int64_t r = 0; r < group.count; ++r) group.sums[r] = fetch(row + r, group.x + r * width);
    op.bias ? normalize<true, T>(op, group) : normalize<false, T>(op, group);
  }
}

/// A block's parts of the sums over rows, [width] each; dbias is null where rows are not centered, dbranch_bias may be.
struct BlockSums {
  float *dgain, *dbias, *dbranch_bias;
};

/// The rows that LayerNormBackward takes together, and the means of g and of g n over each.
template <class T>
struct BackwardGroup {
  const T *dy, *x;
  T *dx, *dbranch;
  std::int64_t width;
  BlockSums sums;
  GroupSums mean_g, mean_gn;
};

/// A row's mean, 0 where rows are not centered.
Vec16f mean_of(const LayerNormBackward& op, std::int64_t row) {
  return broadcast(op.mean ? op.mean.as<float>()[row] : 0);
}

/// Adds the rows' parts to dgain and dbias, and finds the means of each row; without `centered` that of g is 0.
template <bool centered, class T, std::int64_t count>
void sum_group(const LayerNormBackward& op, std::int64_t row, BackwardGroup<T>& group) {
  const std::int64_t width = group.width;
  float *dgain = group.sums.dgain, *dbias = group.sums.dbias;
  const float* gain = op.gain.as<float>();
  Vec16f mean[count], rstd[count], sums[count], projections[count];
  for (std::int64_t r = 0; r < count; ++r) {
    mean[r] = mean_of(op, row + r), rstd[r] = broadcast(op.rstd.as<float>()[row + r]);
    sums[r] = projections[r] = broadcast(0);
  }
  for_lanes(width, [&](std::int64_t i, auto mask) {
    const Vec16f factor = load_lanes(gain + i, mask);
    Vec16f gain_sum = load_lanes(dgain + i, mask), bias_sum = centered ? load_lanes(dbias + i, mask) : broadcast(0);
    for (std::int64_t r = 0; r < count; ++r) {
      const Vec16f d = load_lanes(group.dy + r * width + i, mask), g = d * factor;
      const Vec16f n = (load_lanes(group.x + r * width + i, mask) - mean[r]) * rstd[r];
      sums[r] = sums[r] + g;
      projections[r] = multiply_add(g, n, projections[r]);
      gain_sum = multiply_add(d, n, gain_sum);
      bias_sum = bias_sum + d;
    }
    store_lanes(dgain + i, gain_sum, mask);
    if constexpr (centered) store_lanes(dbias + i, bias_sum, mask);
  });
  for (std::int64_t r = 0; r < count; ++r) {
    group.mean_g[r] = centered ? sum_of_lanes(sums[r]) / static_cast<float>(width) : 0;
    group.mean_gn[r] = sum_of_lanes(projections[r]) / static_cast<float>(width);
  }
}

/// dx, and from it dbranch, of the group's row r, which is the tensor's row `row`.
template <class T>
void write_row(const LayerNormBackward& op, std::int64_t row, const BackwardGroup<T>& group, std::int64_t r) {
  const std::int64_t width = group.width, at = r * width;
  const float* gain = op.gain.as<float>();
  const Vec16f mean = mean_of(op, row), rstd = broadcast(op.rstd.as<float>()[row]);
  const Vec16f mean_g = broadcast(group.mean_g[r]), slope = broadcast(-group.mean_gn[r] * op.rstd.as<float>()[row]);
  const auto dx_lanes = [&](std::int64_t i, auto mask) {
    prefetch_next_group(group.dy + at + i, width);
    prefetch_next_group(group.x + at + i, width);
    const Vec16f g = load_lanes(group.dy + at + i, mask) * load_lanes(gain + i, mask);
    const Vec16f deviation = load_lanes(group.x + at + i, mask) - mean;
    const Vec16f d = multiply_add(deviation, slope, g - mean_g) * rstd;
    const Vec16f sum = op.accumulate ? d + load_lanes(group.dx + at + i, mask) : d;
    store_lanes(group.dx + at + i, sum, mask);
    return sum;
  };
  if (group.dbranch == nullptr) {
    for_lanes(width, [&](std::int64_t i, auto mask) { dx_lanes(i, mask); });
    return;
  }
  const DropoutRow dropout(op.key, row);
  const Vec16f factor = broadcast(dropout.scale());
  for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
    prefetch_next_group(group.dbranch + at + i, width);
    const Vec16f dx = as_stored<T>(dx_lanes(i, mask));
    const Vec16f dbranch = select(keep, dx * factor);
    store_lanes(group.dbranch + at + i, dbranch, mask);
    if (float* sums = group.sums.dbranch_bias; sums != nullptr) {
      store_lanes(sums + i, load_lanes(sums + i, mask) + as_stored<T>(dbranch), mask);
    }
  });
}

template <class T, std::int64_t count>
void backward_group(const LayerNormBackward& op, std::int64_t row, const BlockSums& sums) {
  const std::int64_t width = op.x.shape[1], at = row * width;
  BackwardGroup<T> group{.dy = op.dy.as<T>() + at,
                         .x = op.x.as<T>() + at,
                         .dx = op.dx.as<T>() + at,
                         .dbranch = op.dbranch ? op.dbranch.as<T>() + at : nullptr,
                         .width = width,
                         .sums = sums};
  sums.dbias != nullptr ? sum_group<true, T, count>(op, row, group) : sum_group<false, T, count>(op, row, group);
  for (std::int64_t r = 0; r < count; ++r) write_row(op, row + r, group, r);
}

/// sum = or += `blocks` partial sums, `stride` apart, in their order.
void add_blocks(const float* partial, std::int64_t blocks, std::int64_t stride, const Tensor& sum, bool accumulate) {
  float* to = sum.as<float>();
  for_lanes(sum.columns(), [&](std::int64_t i, auto mask) {
    Vec16f total = accumulate ? load_lanes(to + i, mask) : broadcast(0);
    for (std::int64_t b = 0; b < blocks; ++b) total = total + load_lanes(partial + b * stride + i, mask);
    store_lanes(to + i, total, mask);
  });
}

}  // namespace

void run(const LayerNormForward& op, CpuContext& context) {
  const std::int64_t width = op.x.shape[1];
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
    normalize_rows<T>(op, context, [&](std::int64_t row, float* to) {
      const T* x = op.x.as<T>() + row * width;
      Vec16f total = broadcast(0);
      for_lanes(width, [&](std::int64_t i, auto mask) {
        prefetch_next_group(x + i, width);
        const Vec16f value = load_lanes(x + i, mask);
        store_lanes(to + i, value, mask);
        total = total + value;
      });
      return sum_of_lanes(total);
    });
  });
}

void run(const ResidualNormForward& op, CpuContext& context) {
  const std::int64_t width = op.y.shape[1];
  with_float_type(op.y.dtype, [&](auto tag) {
    using T = decltype(tag);
    normalize_rows<T>(op, context, [&](std::int64_t row, float* to) {
      const T *residual = op.residual.as<T>() + row * width, *branch = op.branch.as<T>() + row * width;
      T* sum = op.sum.as<T>() + row * width;
      const DropoutRow dropout(op.key, row);
      const Vec16f scale = broadcast(dropout.scale());
      Vec16f total = broadcast(0);
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        prefetch_next_group(residual + i, width);
        prefetch_next_group(branch + i, width);
        prefetch_next_group(sum + i, width);
        const Vec16f added = select(keep, load_lanes(branch + i, mask));
        const Vec16f value = multiply_add(added, scale, load_lanes(residual + i, mask)), stored = as_stored<T>(value);
        store_lanes(sum + i, value, mask);
        store_lanes(to + i, stored, mask);
        total = total + stored;
      });
      return sum_of_lanes(total);
    });
  });
}

void run(const LayerNormBackward& op, CpuContext& context) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1], blocks = (rows + block_rows - 1) / block_rows;
  const std::int64_t branch_place = (op.dbias ? 2 : 1) * width, stride = branch_place + (op.dbranch_bias ? width : 0);
  float* partial = context.shared(blocks * stride);
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(op.x.shape.elements()))
    for (std::int64_t b = 0; b < blocks; ++b) {
      float* const first = partial + b * stride;
      std::fill(first, first + stride, 0.0f);
      const BlockSums sums{first, op.dbias ? first + width : nullptr, op.dbranch_bias ? first + branch_place : nullptr};
      const std::int64_t end = std::min(rows, (b + 1) * block_rows);
      std::int64_t row = b * block_rows;
      for (; row + group_rows <= end; row += group_rows) backward_group<T, group_rows>(op, row, sums);
      for (; row < end; ++row) backward_group<T, 1>(op, row, sums);
    }
  });
  add_blocks(partial, blocks, stride, op.dgain, op.accumulate_parameters);
  if (op.dbias) add_blocks(partial + width, blocks, stride, op.dbias, op.accumulate_parameters);
  if (op.dbranch_bias) {
    add_blocks(partial + branch_place, blocks, stride, op.dbranch_bias, op.accumulate_parameters);
  }
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
