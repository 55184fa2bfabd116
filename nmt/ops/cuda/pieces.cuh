#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "nmt/ops/cuda/device_math.cuh"

/// Rows read and written 16 bytes at a time.
namespace babelring::cuda {

/// Elements side by side that one instruction moves.
template <class T, int n>
struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) Piece {
  T of[n];
};
template <int n, class T>
__device__ inline Piece<T, n> piece_at(const T* from) {
  return *reinterpret_cast<const Piece<T, n>*>(from);
}
template <int n, class T>
__device__ inline void put_piece(T* to, const Piece<T, n>& piece) {
  *reinterpret_cast<Piece<T, n>*>(to) = piece;
}

/// A piece read as numbers.
template <class T, int n>
struct Elements {
  __device__ explicit Elements(const T* from) : piece(piece_at<n>(from)) {}
  __device__ float operator[](int e) const { return widen(piece.of[e]); }
  Piece<T, n> piece;
};
/// Eight bf16 in four words, without instructions that take them apart.
template <>
struct Elements<bfloat, 8> {
  __device__ explicit Elements(const bfloat* from) : words(piece_at<4>(reinterpret_cast<const unsigned*>(from))) {}
  __device__ float operator[](int e) const { return half(words.of[e / 2], e % 2 != 0); }
  /// A bf16 is the upper half of an f32.
  __device__ static float half(unsigned word, bool upper) {
    return std::bit_cast<float>(upper ? word & 0xffff0000U : word << 16);
  }
  Piece<unsigned, 4> words;
};

/// Of all elements of the pieces and `value`. A NaN is passed over.
template <class T, int n, int count>
__device__ inline float largest_of(const Elements<T, n> (&pieces)[count], float value) {
#pragma unroll
  for (int e = 0; e < n * count; ++e) value = fmaxf(value, pieces[e / n][e % n]);
  return value;
}
/// Two at a time.
template <int count>
__device__ inline float largest_of(const Elements<bfloat, 8> (&pieces)[count], float value) {
  unsigned words = pieces[0].words.of[0];
#pragma unroll
  for (int i = 1; i < 4 * count; ++i) {
    const unsigned next = pieces[i / 4].words.of[i % 4];
    const __nv_bfloat162 larger =
        __hmax2(*reinterpret_cast<const __nv_bfloat162*>(&words), *reinterpret_cast<const __nv_bfloat162*>(&next));
    words = *reinterpret_cast<const unsigned*>(&larger);
  }
  return fmaxf(value, fmaxf(Elements<bfloat, 8>::half(words, false), Elements<bfloat, 8>::half(words, true)));
}

/// Numbers as a piece's bytes, rounded to T.
template <class T, int n>
__device__ inline uint4 packed_words(const float (&values)[n]) {
  static_assert(n * sizeof(T) == sizeof(uint4));
  if constexpr (sizeof(T) == 2) {
    return {pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]), pack_bf16(values[4], values[5]),
            pack_bf16(values[6], values[7])};
  } else {
    return {std::bit_cast<unsigned>(values[0]), std::bit_cast<unsigned>(values[1]), std::bit_cast<unsigned>(values[2]),
            std::bit_cast<unsigned>(values[3])};
  }
}
/// Writes numbers, rounded to T, that nothing reads soon: their lines leave the caches first.
template <int n, class T>
__device__ inline void stream_elements(T* to, const float (&values)[n]) {
  if constexpr (n == 1) {
    *to = narrow<T>(values[0]);
  } else {
    __stcs(reinterpret_cast<uint4*>(to), packed_words<T>(values));
  }
}

/// Where a warp takes a row, and a block `warps` of them: the blocks for all rows, and the warp's row.
template <int warps>
unsigned row_blocks(std::int64_t rows) {
  return static_cast<unsigned>((rows + warps - 1) / warps);
}
template <int warps>
__device__ inline std::int64_t row_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / warp_lanes;
}

/// Of a row that a warp goes through together, a lane takes every 32nd piece of n columns: the first one's column.
template <int n>
__device__ inline int first_column() {
  return static_cast<int>(threadIdx.x % warp_lanes) * n;
}
/// From one piece of a lane to its next.
template <int n>
constexpr int column_step = warp_lanes* n;

/// Calls body(std::integral_constant): how many elements of T to move at once. 16 bytes of them where all places and
/// all extents (of rows, and from one row to the next) are multiples of that, else one.
template <class T, class Body>
void with_pieces(std::initializer_list<std::int64_t> extents, std::initializer_list<const void*> places, Body&& body) {
  constexpr int n = 16 / sizeof(T);
  const bool aligned =
      std::all_of(extents.begin(), extents.end(), [](std::int64_t extent) { return extent % n == 0; }) &&
      std::all_of(places.begin(), places.end(),
                  [](const void* place) { return reinterpret_cast<std::uintptr_t>(place) % 16 == 0; });
  if (aligned) {
    body(std::integral_constant<int, n>());
  } else {
    body(std::integral_constant<int, 1>());
  }
}

}  // namespace babelring::cuda
