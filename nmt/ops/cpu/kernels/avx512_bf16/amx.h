#pragma once

#include <array>
#include <cstdint>

#include "nmt/core/tensor.h"

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

// The processor's matrix tiles (Intel AMX): eight registers of 16 rows of 64 bytes, and
// C[16 x 16 f32] += A[16 x 32 bf16] B[32 x 16 bf16]. B lies in pairs of rows: its row r holds, for each column n, the
// elements (2 r, n) and (2 r + 1, n). bf16 numbers below 2^-126 count as 0.

/// The operand of ldtilecfg: palette 1, then each tile's bytes per row and rows. All eight tiles have 16 rows of 64
/// bytes.
struct TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{64, 64, 64, 64, 64, 64, 64, 64};
  std::array<std::uint8_t, 16> rows{16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

/// Configures and zeroes all tiles of the calling thread for the life of the object. Libraries configure and release
/// tiles for themselves, so each parallel region begins with one. Needs KernelSet::amx.
class TileConfiguration {
 public:
  TileConfiguration() {
    const TileShapes shapes;
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  ~TileConfiguration() { asm volatile("tilerelease"); }
  TileConfiguration(const TileConfiguration&) = delete;
  TileConfiguration& operator=(const TileConfiguration&) = delete;
};

/// Tile `tile` from 16 rows of 64 bytes, `stride` bytes apart.
template <int tile>
inline void tile_load(const void* from, std::int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
}

/// The same for data that is not read again soon.
template <int tile>
inline void tile_stream(const void* from, std::int64_t stride) {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(stride), "i"(tile) : "memory");
}

template <int tile>
inline void tile_store(void* to, std::int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(stride), "i"(tile) : "memory");
}

template <int tile>
inline void tile_zero() {
  asm volatile("tilezero %%tmm%c0" : : "i"(tile));
}

/// Tile c += tile a times tile b.
template <int c, int a, int b>
inline void tile_multiply() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(c), "i"(a), "i"(b));
}

}  // namespace babelring::cpu::BABELRING_KERNEL_SET
