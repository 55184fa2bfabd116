#include "nmt/ops/embedding.h"

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

void run(const EmbeddingForward& op, CpuContext& context) {
  check_indices(op.name, "ids", op.ids, op.table.shape[0]);
  const std::int64_t rows = op.ids.shape[0], width = op.table.shape[1];
  const std::int64_t last_position = max_index(op.name, "positions", op.positions);
  const float* sinusoids = context.sinusoids(last_position + 1, width, op.position_divisor());
  const auto *ids = op.ids.as<std::int32_t>(), *positions = op.positions.as<std::int32_t>();
  with_float_type(op.table.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* entry = op.table.as<T>() + ids[row] * width;
      const float* sinusoid = sinusoids + positions[row] * width;
      T* y = op.y.as<T>() + row * width;
      const DropoutRow dropout(op.key, row);
      const bool has_entry = !op.zero_start || positions[row] != 0;
      const Vec16f scale = broadcast(has_entry ? op.scale : 0), factor = broadcast(dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        const Vec16f sum = multiply_add(load_lanes(entry + i, mask), scale, load_lanes(sinusoid + i, mask));
        store_lanes(y + i, select(keep, sum * factor), mask);
      });
    }
  });
}

void run(const EmbeddingBackward& op, CpuContext& context) {
  check_indices(op.name, "ids", op.ids, op.dtable.shape[0]);
  const std::int64_t rows = op.dy.shape[0], width = op.dy.shape[1];
  const auto *ids = op.ids.as<std::int32_t>(), *positions = op.positions ? op.positions.as<std::int32_t>() : nullptr;
  // Each entry of the table belongs to one thread, which goes through the rows in their order.
  with_float_type(op.dy.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      if (ids[row] % omp_get_num_threads() != omp_get_thread_num()) continue;
      if (positions != nullptr && positions[row] == 0) continue;
      const T* dy = op.dy.as<T>() + row * width;
      float* entry = op.dtable.as<float>() + ids[row] * width;
      const DropoutRow dropout(op.key, row);
      const Vec16f factor = broadcast(op.scale * dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        const Vec16f d = select(keep, load_lanes(dy + i, mask));
        store_lanes(entry + i, multiply_add(d, factor, load_lanes(entry + i, mask)), mask);
      });
    }
  });
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
