#pragma once

#include <cstdint>
#include <vector>

namespace babelring {

/// sum[i] += addend[i]. The ranges do not overlap.
void add_in_place(float* sum, const float* addend, std::int64_t count);

/// Replaces elements begin … begin + count of every part by their sum over parts, added in the order of parts. The
/// parts do not overlap.
void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count);

}  // namespace babelring
