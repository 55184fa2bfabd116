#include "nmt/ops/cpu/indices.h"

#include <algorithm>

#include "base/failure.h"

namespace babelring::cpu {

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
