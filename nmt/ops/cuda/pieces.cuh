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

/// A piece read as numbers, or made of numbers rounded to T.
template <class T, int n>
struct Elements {
  Elements() = default;
  __device__ explicit Elements(const T* from) : piece(piece_at<n>(from)) {}
  __device__ explicit Elements(const float (&values)[n]) {
#pragma unroll
    for (int e = 0; e < n; ++e) piece.of[e] = narrow<T>(values[e]);
  }
  __device__ float operator[](int e) const { return widen(piece.of[e]); }
  Piece<T, n> piece;
};
/// Eight bf16 in four words, without instructions that take them apart.
template <>
struct Elements<bfloat, 8> {
  Elements() = default;
  __device__ explicit Elements(const bfloat* from) : piece(piece_at<4>(reinterpret_cast<const unsigned*>(from))) {}
  __device__ explicit Elements(const float (&values)[8]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) piece.of[i] = pack_bf16(values[2 * i], values[2 * i + 1]);
  }
  __device__ float operator[](int e) const { return half(piece.of[e / 2], e % 2 != 0); }
  /// A bf16 is the upper half of an f32.
  __device__ static float half(unsigned word, bool upper) {
    return std::bit_cast<float>(upper ? word & 0xffff0000U : word << 16);
  }
  Piece<unsigned, 4> piece;
};

template <class T, int n>
__device__ inline void put_elements(T* to, const Elements<T, n>& elements) {
  *reinterpret_cast<decltype(elements.piece)*>(to) = elements.piece;
}
/// The same of what nothing reads soon: its lines leave the caches first.
template <class T, int n>
__device__ inline void stream_elements(T* to, const Elements<T, n>& elements) {
  if constexpr (n * sizeof(T) == sizeof(uint4)) {
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<const uint4*>(&elements.piece));
  } else {
    put_elements(to, elements);
  }
}

/// The largest of all elements of the pieces and `value`. Ignores NaN.
template <class T, int n, int count>
__device__ inline float largest_of(const Elements<T, n> (&pieces)[count], float value) {
#pragma unroll
  for (int e = 0; e < n * count; ++e) value = fmaxf(value, pieces[e / n][e % n]);
  return value;
}
/// Two at a time.
template <int count>
__device__ inline float largest_of(const Elements<bfloat, 8> (&pieces)[count], float value) {
  unsigned words = pieces[0].piece.of[0];
#pragma unroll
  for (int i = 1; i < 4 * count; ++i) {
    const unsigned next = pieces[i / 4].piece.of[i % 4];
    const __nv_bfloat162 larger =
        __hmax2(*reinterpret_cast<const __nv_bfloat162*>(&words), *reinterpret_cast<const __nv_bfloat162*>(&next));
    words = *reinterpret_cast<const unsigned*>(&larger);
  }
  return fmaxf(value, fmaxf(Elements<bfloat, 8>::half(words, false), Elements<bfloat, 8>::half(words, true)));
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

/// The first column of a lane, for a row that a warp reads together: each lane takes every 32nd piece of n columns.
template <int n>
__device__ inline int first_column() {
  return static_cast<int>(threadIdx.x % warp_lanes) * n;
}
/// From one piece of a lane to its next.
template <int n>
constexpr int column_step = warp_lanes * n;

/// Calls body(k, column) for each piece that a lane takes of a row: k counts them where a row has `pieces` for a lane,
/// and is 0 where that is not known, pieces = 0.
template <int n, int pieces, class Body>
__device__ inline void for_lane_pieces(int width, Body&& body) {
  if constexpr (pieces > 0) {
#pragma unroll
    for (int k = 0; k < pieces; ++k) body(k, first_column<n>() + k * column_step<n>);
  } else {
    for (int i = first_column<n>(); i < width; i += column_step<n>) body(0, i);
  }
}
/// A lane's pieces of a row: in registers, all on their way at a time, where their number is known, else read whenever
/// they are used.
template <class T, int n, int pieces>
class LaneRow {
 public:
  LaneRow() = default;
  __device__ explicit LaneRow(const T* row) {
    for_lane_pieces<n, pieces>(0, [&](int k, int column) { kept_[k] = Elements<T, n>(row + column); });
  }
  __device__ Elements<T, n> piece(int k, int) const { return kept_[k]; }
  __device__ void keep(int k, const Elements<T, n>& elements) { kept_[k] = elements; }
  /// From now on the row is there, and what was kept are its pieces.
  __device__ void moved_to(const T*) {}

 private:
  Elements<T, n> kept_[pieces];
};
template <class T, int n>
class LaneRow<T, n, 0> {
 public:
  LaneRow() = default;
  __device__ explicit LaneRow(const T* row) : place_(row) {}
  __device__ Elements<T, n> piece(int, int column) const { return Elements<T, n>(place_ + column); }
  __device__ void keep(int, const Elements<T, n>&) {}
  __device__ void moved_to(const T* row) { place_ = row; }

 private:
  const T* place_ = nullptr;
};

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

/// The same for rows that warps go through: body(n, pieces), both std::integral_constant. Where the width is that of
/// transformer-base or transformer-big, and a lane's pieces of a row are few enough for registers, `pieces` is their
/// number, else 0.
template <class T, class Body>
void with_row_pieces(std::int64_t width, std::initializer_list<const void*> places, Body&& body) {
  with_pieces<T>({width}, places, [&](auto n) {
    constexpr int of_base = 512 / column_step<n>, of_big = 1024 / column_step<n>, most = 4;
    if constexpr (n > 1 && of_base <= most) {
      if (width == 512) return body(n, std::integral_constant<int, of_base>());
    }
    if constexpr (n > 1 && of_big <= most) {
      if (width == 1024) return body(n, std::integral_constant<int, of_big>());
    }
    body(n, std::integral_constant<int, 0>());
  });
}

}  // namespace babelring::cuda
