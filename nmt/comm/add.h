#pragma once

#include <cstdint>
#include <vector>

#include "nmt/core/dtype.h"

namespace babelring {

/// The order in which numbers from n ranks are added.
enum class AddOrder {
  any,   // fixed, but another one on each path: by ranks in shared memory, around a ring
  tree,  // in pairs: (0 + 1) + (2 + 3), and so on; n is a power of two
};

/// sum[i] += addend[i]. The ranges must not overlap.
void add_in_place(float* sum, const float* addend, std::int64_t count);
void add_in_place(float* sum, const BFloat16* addend, std::int64_t count);

/// Converts element by element; f32 to bf16 rounds to nearest, ties to even. The ranges must not overlap.
void convert(const float* from, BFloat16* to, std::int64_t count);
void convert(const BFloat16* from, float* to, std::int64_t count);

/// Sums elements [begin, begin + count) over all `parts`, in the order of `parts` or in a tree over them, and writes
/// the sums back to every part. The parts must not overlap.
void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count,
                  AddOrder order = AddOrder::any);
/// The same, but writes the sums to `target` only, which is one of the parts.
void sum_into_one(const std::vector<float*>& parts, float* target, std::int64_t begin, std::int64_t count,
                  AddOrder order = AddOrder::any);

}  // namespace babelring
