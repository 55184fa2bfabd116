#pragma once

#include <cstdint>

namespace babelring {

/// sum[i] += addend[i]. The ranges do not overlap.
void add_in_place(float* sum, const float* addend, std::int64_t count);

}  // namespace babelring
