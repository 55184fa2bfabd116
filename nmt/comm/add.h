#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/dtype.h"

namespace babelring {

/// sum[i] += addend[i]. The ranges must not overlap.
void add_in_place(float* sum, const float* addend, std::int64_t count);
void add_in_place(float* sum, const BFloat16* addend, std::int64_t count);

/// Converts element by element; f32 to bf16 rounds to nearest, ties to even. The ranges must not overlap.
void convert(const float* from, BFloat16* to, std::int64_t count);
void convert(const BFloat16* from, float* to, std::int64_t count);
/// Rounds each value to the nearest bf16.
void round_in_place(float* values, std::int64_t count);

/// Sums elements [begin, begin + count) over all `parts`, in the order of `parts`, and writes the sums back to every
/// part. The parts must not overlap.
void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count);
/// The same, but writes the sums to `target` only, which is one of the parts.
void sum_into_one(const std::vector<float*>& parts, float* target, std::int64_t begin, std::int64_t count);

}  // namespace babelring
