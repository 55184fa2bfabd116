#include "nmt/ops/embedding.h"

#include <algorithm>
#include <cmath>

#include "nmt/base/failure.h"
#include "nmt/ops/cpu/dropout_mask.h"
#include "nmt/ops/cpu/kernels.h"
#include "nmt/ops/cpu/vector_math.h"

namespace babelring::cpu {

namespace {

/// Sinusoids of the first `count` positions, [count, width]; returns its first element.
const float* position_table(Workspace& workspace, std::int64_t count, std::int64_t width) {
  float* table = workspace.shared(count * width);
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(count* width))
  for (std::int64_t column = 0; column < width; ++column) {
    const double pair = static_cast<double>(column / 2 * 2);
    const double frequency = std::pow(10000.0, -pair / static_cast<double>(width));
    for (std::int64_t position = 0; position < count; ++position) {
      const double angle = static_cast<double>(position) * frequency;
      table[position * width + column] = static_cast<float>(column % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

std::int64_t largest_position(const EmbeddingForward& op) {
  const auto* positions = op.positions.as<std::int32_t>();
  std::int32_t largest = 0;
  for (std::int64_t row = 0; row < op.ids.shape[0]; ++row) {
    if (positions[row] < 0) fail("{}: positions[{}] is {}, at least 0 is needed", op.name, row, positions[row]);
    largest = std::max(largest, positions[row]);
  }
  return largest;
}

}  // namespace

void run(const EmbeddingForward& op, Workspace& workspace) {
  check_indices(op.name, "ids", op.ids, op.table.shape[0]);
  const std::int64_t rows = op.ids.shape[0], width = op.table.shape[1];
  const float* sinusoids = position_table(workspace, largest_position(op) + 1, width);
  const auto *ids = op.ids.as<std::int32_t>(), *positions = op.positions.as<std::int32_t>();
  with_float_type(op.table.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(workspace.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* entry = op.table.as<T>() + ids[row] * width;
      const float* sinusoid = sinusoids + positions[row] * width;
      T* y = op.y.as<T>() + row * width;
      for_dropout_runs(op.key, row, width, [&](std::int64_t first, std::int64_t count, const float* factors) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) {
          y[first + i] = rounded<T>((op.scale * load(entry[first + i]) + sinusoid[first + i]) * factors[i]);
        }
      });
    }
  });
}

void run(const EmbeddingBackward& op, Workspace& workspace) {
  check_indices(op.name, "ids", op.ids, op.dtable.shape[0]);
  const std::int64_t rows = op.dy.shape[0], width = op.dy.shape[1];
  const auto* ids = op.ids.as<std::int32_t>();
  // Each entry of the table belongs to one thread, which goes through the rows in their order.
  with_float_type(op.dy.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel num_threads(workspace.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      if (ids[row] % omp_get_num_threads() != omp_get_thread_num()) continue;
      const T* dy = op.dy.as<T>() + row * width;
      float* entry = op.dtable.as<float>() + ids[row] * width;
      for_dropout_runs(op.key, row, width, [&](std::int64_t first, std::int64_t count, const float* factors) {
#pragma omp simd
        for (std::int64_t i = 0; i < count; ++i) entry[first + i] += op.scale * (load(dy[first + i]) * factors[i]);
      });
    }
  });
}

}  // namespace babelring::cpu
