#include "nmt/ops/embedding.h"

#include <type_traits>

#include "nmt/ops/cpu/cpu_context.h"
#include "nmt/ops/cpu/kernels/lanes.h"
#include "nmt/ops/cpu/kernels/vector_math.h"

namespace babelring::cpu::BABELRING_KERNEL_SET {

namespace {

/// Writes the elements of an output's row to `to`, which it returns.
const float* widen_row(const QuantizedWeight& weight, std::int64_t output, float* to) {
  const auto* from = weight.elements.as<std::int8_t>() + weight.place(output, 0);
  const float scale = weight.scales.as<float>()[output];
  for (std::int64_t input = 0; input < weight.shape[1]; ++input) {
    to[input] = scale * static_cast<float>(from[QuantizedWeight::distance(input)]);
  }
  return to;
}

}  // namespace

void run(const EmbeddingForward& op, CpuContext& context) {
  check_indices(op.name, "ids", op.ids, op.table_shape()[0]);
  const std::int64_t rows = op.ids.shape[0], width = op.table_shape()[1];
  const std::int64_t last_position = max_index(op.name, "positions", op.positions);
  const float* sinusoids = op.sinusoids ? context.sinusoids(last_position + 1, width, op.position_divisor()) : nullptr;
  const auto *ids = op.ids.as<std::int32_t>(), *positions = op.positions.as<std::int32_t>();
  const auto widened = context.per_thread(op.quantized ? width : 0);
  const auto run_rows = [&](auto tag, auto with_sinusoids) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* entry = op.table.as<T>() + ids[row] * width;
      if constexpr (std::is_same_v<T, float>) {
        if (op.quantized) entry = widen_row(op.quantized, ids[row], widened.of_this_thread());
      }
      const float* sinusoid = with_sinusoids ? sinusoids + positions[row] * width : nullptr;
      T* y = op.y.as<T>() + row * width;
      const DropoutRow dropout(op.key, row);
      const bool has_entry = !op.zero_start || positions[row] != 0;
      const Vec16f scale = broadcast(has_entry ? op.scale : 0), factor = broadcast(dropout.scale());
      for_dropped_lanes(dropout, width, [&](std::int64_t i, auto mask, std::uint32_t keep) {
        const Vec16f value = load_lanes(entry + i, mask);
        const Vec16f sum = with_sinusoids ? multiply_add(value, scale, load_lanes(sinusoid + i, mask)) : value * scale;
        store_lanes(y + i, select(keep, sum * factor), mask);
      });
    }
  };
  with_float_type(op.y.dtype,
                  [&](auto tag) { op.sinusoids ? run_rows(tag, std::true_type()) : run_rows(tag, std::false_type()); });
}

void run(const RotaryPositions& op, CpuContext& context) {
  const std::int64_t rows = op.x.shape[0], width = op.x.shape[1], head = width / op.heads, half = head / 2;
  const std::int64_t last_position = max_index(op.name, "positions", op.positions);
  const float* sinusoids = context.sinusoids(last_position + 1, head, head);
  const auto* positions = op.positions.as<std::int32_t>();
  const float sign = op.inverse ? -1 : 1;
  const auto angles = context.per_thread(head);
  with_float_type(op.x.dtype, [&](auto tag) {
    using T = decltype(tag);
#pragma omp parallel for schedule(static) num_threads(context.threads_for(rows* width))
    for (std::int64_t row = 0; row < rows; ++row) {
      const float* sinusoid = sinusoids + positions[row] * head;
      float *sines = angles.of_this_thread(), *cosines = sines + half;
#pragma omp simd
      for (std::int64_t i = 0; i < half; ++i) sines[i] = sign * sinusoid[2 * i], cosines[i] = sinusoid[2 * i + 1];
      for (std::int64_t first = 0; first < width; first += head) {
        const T* x = op.x.as<T>() + row * op.x.row_stride + first;
        T* y = op.y.as<T>() + row * op.y.row_stride + first;
        for_lanes(half, [&](std::int64_t i, auto mask) {
          const Vec16f a = load_lanes(x + i, mask), b = load_lanes(x + half + i, mask);
          const Vec16f sine = load_lanes(sines + i, mask), cosine = load_lanes(cosines + i, mask);
          store_lanes(y + i, a * cosine - b * sine, mask);
          store_lanes(y + half + i, b * cosine + a * sine, mask);
        });
      }
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
