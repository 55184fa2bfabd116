#include "nmt/ops/cpu/cpu_context.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/failure.h"
#include "nmt/ops/embedding.h"

namespace babelring::cpu {

const float* PositionTables::values(std::int64_t positions, std::int64_t width, std::int64_t divisor, int threads) {
  Table& found = tables_[{width, divisor}];
  auto* table = static_cast<float*>(found.buffer.data());
  if (positions <= found.positions) return table;
  constexpr std::int64_t least = 64;
  const auto needed = static_cast<std::uint64_t>(std::max(positions, least));
  const auto count = static_cast<std::int64_t>(std::bit_ceil(needed));
  found.buffer = allocate_host(static_cast<std::size_t>(count * width) * sizeof(float));
  found.positions = count;
  table = static_cast<float*>(found.buffer.data());
#pragma omp parallel for schedule(static) num_threads(threads)
  for (std::int64_t column = 0; column < width; ++column) write_sinusoid_column(column, count, width, divisor, table);
  return table;
}

void check_indices(std::string_view op, std::string_view field, const ConstTensor& indices, std::int64_t bound,
                   std::int32_t absent) {
  const auto* values = indices.as<std::int32_t>();
  for (std::int64_t i = 0; i < indices.shape.elements(); ++i) {
    if ((values[i] >= 0 && values[i] < bound) || values[i] == absent) continue;
    fail("{}: {}[{}] is {}, 0 to {} is needed", op, field, i, values[i], bound - 1);
  }
}

std::int64_t max_index(std::string_view op, std::string_view field, const ConstTensor& indices) {
  const auto* values = indices.as<std::int32_t>();
  std::int32_t max = 0;
  for (std::int64_t i = 0; i < indices.shape.elements(); ++i) {
    if (values[i] < 0) fail("{}: {}[{}] is {}, at least 0 is needed", op, field, i, values[i]);
    max = std::max(max, values[i]);
  }
  return max;
}

}  // namespace babelring::cpu
