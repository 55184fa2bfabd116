#include "nmt/comm/add.h"

#include <algorithm>
#include <array>
#include <span>

#include "nmt/comm/also_for_avx2.h"

namespace babelring {

BABELRING_ALSO_FOR_AVX2
void add_in_place(float* __restrict sum, const float* __restrict addend, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += addend[i];
}

BABELRING_ALSO_FOR_AVX2
void add_in_place(float* __restrict sum, const BFloat16* __restrict addend, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += static_cast<float>(addend[i]);
}

BABELRING_ALSO_FOR_AVX2
void convert(const float* __restrict from, BFloat16* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = BFloat16(from[i]);
}

BABELRING_ALSO_FOR_AVX2
void convert(const BFloat16* __restrict from, float* __restrict to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

namespace {

constexpr std::int64_t block = 1024;  // a block and its sums fit into the L1 cache
using Block = std::array<float, block>;

/// sums = parts[first] + … of `count` parts, in pairs, for `size` elements from `offset` on.
void sum_in_tree(const std::vector<float*>& parts, std::size_t first, std::size_t count, std::int64_t offset,
                 std::int64_t size, float* sums) {
  if (count == 1) {
    std::copy_n(parts[first] + offset, size, sums);
    return;
  }
  sum_in_tree(parts, first, count / 2, offset, size, sums);
  if (count == 2) return add_in_place(sums, parts[first + 1] + offset, size);
  Block right;
  sum_in_tree(parts, first + count / 2, count - count / 2, offset, size, right.data());
  add_in_place(sums, right.data(), size);
}

/// Sums elements [begin, begin + count) of `parts` and writes the sums to every target. Targets may be parts.
void sum_into(const std::vector<float*>& parts, std::span<float* const> targets, std::int64_t begin, std::int64_t count,
              AddOrder order) {
  Block sums;
  for (std::int64_t offset = begin; offset < begin + count; offset += block) {
    const std::int64_t size = std::min(block, begin + count - offset);
    if (order == AddOrder::tree) {
      sum_in_tree(parts, 0, parts.size(), offset, size, sums.data());
    } else {
      std::copy_n(parts[0] + offset, size, sums.data());
      for (std::size_t part = 1; part < parts.size(); ++part) add_in_place(sums.data(), parts[part] + offset, size);
    }
    for (float* target : targets) std::copy_n(sums.data(), size, target + offset);
  }
}

}  // namespace

void sum_into_all(const std::vector<float*>& parts, std::int64_t begin, std::int64_t count, AddOrder order) {
  sum_into(parts, parts, begin, count, order);
}

void sum_into_one(const std::vector<float*>& parts, float* target, std::int64_t begin, std::int64_t count,
                  AddOrder order) {
  sum_into(parts, std::span(&target, 1), begin, count, order);
}

}  // namespace babelring
