#pragma once

#include <cstdint>
#include <string_view>

#include "nmt/core/tensor.h"

namespace babelring::cpu {

/// Throws Failure unless every index is in [0, bound) or equal to `absent`:
/// embedding_forward: ids[3] is 40000, 0 to 32767 is needed
void check_indices(std::string_view op, std::string_view field, const ConstTensor& indices, std::int64_t bound,
                   std::int32_t absent = 0);

/// The largest index, or 0 if there are none. Throws Failure if an index is negative.
std::int64_t max_index(std::string_view op, std::string_view field, const ConstTensor& indices);

}  // namespace babelring::cpu
