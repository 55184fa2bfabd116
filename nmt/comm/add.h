#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/dtype.h"

namespace babelring {

/// sum[i] += addend[i]. The ranges do not overlap.
void add_in_place(float* sum, const float* addend, std::int64_t count);
void add_in_place(float* sum, const BFloat16* addend, std::int64_t count);

/// Element by element; f32 to bf16 rounds to nearest, ties to even. The ranges do not overlap.
void convert(const float* from, BFloat16* to, std::int64_t count);
void convert(const BFloat16* from, float* to, std::int64_t count);
/// To the nearest bf16.
void round_in_place(float* values, std::int64_t count);

/// Replaces elements begin … begin + count of every part by their sum over parts, added in the order of parts. The
/// parts do not overlap.
void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count);

}  // namespace babelring
