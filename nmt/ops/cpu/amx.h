#pragma once

#include <cstdint>

/// The processor's matrix tiles (Intel AMX): eight registers of 16 rows of 64 bytes, and
/// C[16 x 16 f32] += A[16 x 32 bf16] B[32 x 16 bf16]. B lies in pairs of rows: its row r holds, for each column n, the
/// elements (2 r, n) and (2 r + 1, n). bf16 numbers below 2^-126 count as 0. Linux on x86-64 only.
namespace babelring::cpu {

/// What kernels chosen at run time may use.
enum class InstructionSet { basic, avx512, amx };

/// The best that processor and system allow: avx512 means F, BW, DQ, VL and BF16; amx is that with tiles and their bf16
/// products, and Linux has granted this process the tiles. Environment BABELRING_CPU_ISA (avx2, avx512 or amx) lowers
/// it, read at the first call. Throws Failure if it says anything else.
InstructionSet instruction_set();

inline bool amx_available() {
  return instruction_set() == InstructionSet::amx;
}

/// All eight tiles with 16 rows of 64 bytes on the calling thread, zeroed, for the life of the object. Libraries set
/// and release tiles for themselves, so one is made at the start of each parallel region. Needs amx_available().
class TileConfiguration {
 public:
  TileConfiguration();
  ~TileConfiguration();
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

}  // namespace babelring::cpu
