#pragma once

#include <cstdint>

#include "nmt/core/dtype.h"

/// Copies of matrices in the order in which the matrix tiles read them. A panel is 32 rows of A or 32 columns of B over
/// all of k; it is a run of steps of 32 along k, each of two tiles of 1 KiB: the panel's first 16 rows (columns) and
/// its last 16. A's tiles hold rows of 32 elements, B's pairs of k (amx.h). Each function here writes one step: `count`
/// rows (columns) and `depth` elements of k, 32 or fewer; the rest is written as 0. So that memory is read along its
/// rows, callers go over the panels of a step first where rows of memory lie across panels, over the steps of a panel
/// elsewhere.
namespace babelring::cpu::BABELRING_KERNEL_SET {

inline constexpr std::int64_t panel_width = 32, tile_bytes = 1024, step_bytes = 2 * tile_bytes;

/// Steps of 32 that cover k.
constexpr std::int64_t steps_of(std::int64_t k) {
  return (k + 31) / 32;
}

/// A [count, depth] with rows `stride` apart.
void pack_rows(const BFloat16* a, std::int64_t stride, std::int64_t count, std::int64_t depth, char* step);

/// The transpose of A: element (i, p) at a[p * stride + i].
void pack_rows_transposed(const BFloat16* a, std::int64_t stride, std::int64_t count, std::int64_t depth, char* step);

/// B [depth, count] with rows `stride` apart.
void pack_columns(const BFloat16* b, std::int64_t stride, std::int64_t count, std::int64_t depth, char* step);

/// The transpose of B: element (p, j) at b[j * stride + p].
void pack_columns_transposed(const BFloat16* b, std::int64_t stride, std::int64_t count, std::int64_t depth,
                             char* step);

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
