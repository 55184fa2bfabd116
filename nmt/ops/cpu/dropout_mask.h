#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "nmt/core/random.h"

namespace babelring::cpu {

/// The factors of one row's dropout: 0 for the dropped, DropoutKey::scale() for the kept, in runs of columns.
/// One hash serves two columns, and its halves lie in memory in the columns' order (little-endian machines only).
class DropoutRow {
 public:
  static constexpr std::int64_t run_columns = 256;
  using Factors = std::array<float, run_columns>;

  DropoutRow(const DropoutKey& key, std::int64_t row)
      : row_key_(key.row_key(row)), threshold_(key.threshold()), scale_(key.scale()) {}

  /// Factors of columns [first, first + count), count at most run_columns; `first` is even. A few more are written.
  void fill(std::int64_t first, std::int64_t count, Factors& factors) const {
    const std::int64_t columns = (count + 31) / 32 * 32;
    std::array<std::uint32_t, run_columns / 2> hashes;
    const auto first_pair = static_cast<std::uint32_t>(first >> 1);
#pragma omp simd
    for (std::uint32_t pair = 0; pair < static_cast<std::uint32_t>(columns / 2); ++pair) {
      hashes[pair] = mix32(row_key_ ^ ((first_pair + pair) * 0x9e3779b9U));
    }
    std::array<std::uint16_t, run_columns> bits;
    std::memcpy(bits.data(), hashes.data(), static_cast<std::size_t>(columns) * sizeof(std::uint16_t));
#pragma omp simd
    for (std::int64_t column = 0; column < columns; ++column) {
      factors[static_cast<std::size_t>(column)] = bits[static_cast<std::size_t>(column)] < threshold_ ? 0.0f : scale_;
    }
  }

 private:
  std::uint32_t row_key_, threshold_;
  float scale_;
};

/// Calls body(first, count, factors) for runs of a row's columns; factors[i] belongs to column first + i.
template <class Body>
inline void for_dropout_runs(const DropoutKey& key, std::int64_t row, std::int64_t columns, Body&& body) {
  DropoutRow::Factors factors;
  const bool drops = key.threshold() > 0;
  if (!drops) factors.fill(1.0f);
  const DropoutRow mask(key, row);
  for (std::int64_t first = 0; first < columns; first += DropoutRow::run_columns) {
    const std::int64_t count = std::min(DropoutRow::run_columns, columns - first);
    if (drops) mask.fill(first, count, factors);
    body(first, count, factors.data());
  }
}

}  // namespace babelring::cpu
