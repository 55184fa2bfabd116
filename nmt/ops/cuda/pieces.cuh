#pragma once

#include <algorithm>
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
