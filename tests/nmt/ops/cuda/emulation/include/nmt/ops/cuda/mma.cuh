#pragma once

#include <cuda_bf16.h>

#include <cstring>

/// The stand-in of the header of this name: what its instructions do, as PTX describes them.
namespace babelring::cuda {

namespace emulated {

inline float number(unsigned pair, int half) {
  return __bfloat162float({static_cast<std::uint16_t>(pair >> (16 * half))});
}

inline void require_aligned(const void* place, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(place) % 16 != 0) {
    emulation::fault(std::string(what) + ": an address is no multiple of 16");
  }
}
inline void require_all(const emulation::Meeting& meeting, const char* what) {
  if (meeting.present != 0xffffffffU) emulation::fault(std::string(what) + ": some lanes take no part");
}

struct Fragments {
  const unsigned *a, *b;
};

inline void multiply(emulation::Meeting& meeting) {
  require_all(meeting, "mma_m16n8k16");
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const Fragments& of = *static_cast<const Fragments*>(meeting.in[lane]);
    const int r = lane / 4, c = lane % 4 * 2;
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < 4; ++i) a[r + i % 2 * 8][c + i / 2 * 8 + half] = number(of.a[i], half);
      for (int i = 0; i < 2; ++i) b[c + i * 8 + half][r] = number(of.b[i], half);
    }
  }
  for (int lane = 0; lane < 32; ++lane) {
    auto* d = static_cast<float*>(meeting.out[lane]);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      for (int l = 0; l < 16; ++l) d[i] += a[row][l] * b[l][column];
    }
  }
}

template <bool transposed>
void load(emulation::Meeting& meeting) {
  require_all(meeting, "load_matrix_x4");
  for (int matrix = 0; matrix < 4; ++matrix) {
    std::uint16_t elements[8][8];
    for (int row = 0; row < 8; ++row) std::memcpy(elements[row], meeting.in[matrix * 8 + row], 16);
    for (int lane = 0; lane < 32; ++lane) {
      const int r = lane / 4, c = lane % 4 * 2;
      const unsigned low = transposed ? elements[c][r] : elements[r][c];
      const unsigned high = transposed ? elements[c + 1][r] : elements[r][c + 1];
      static_cast<unsigned*>(meeting.out[lane])[matrix] = low | high << 16;
    }
  }
}

}  // namespace emulated

inline void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                         std::source_location where = std::source_location::current()) {
  const emulated::Fragments mine{a, b};
  emulation::meet_lanes(0xffffffffU, &mine, d, emulated::multiply, "mma_m16n8k16", where);
}

inline void load_matrix_x4(unsigned (&r)[4], const void* shared_row,
                           std::source_location where = std::source_location::current()) {
  emulated::require_aligned(shared_row, "load_matrix_x4");
  emulation::meet_lanes(0xffffffffU, shared_row, r, emulated::load<false>, "load_matrix_x4", where);
}
inline void load_matrix_x4_transposed(unsigned (&r)[4], const void* shared_row,
                                      std::source_location where = std::source_location::current()) {
  emulated::require_aligned(shared_row, "load_matrix_x4_transposed");
  emulation::meet_lanes(0xffffffffU, shared_row, r, emulated::load<true>, "load_matrix_x4_transposed", where);
}

inline void copy_async_16(void* shared, const void* global, bool inside) {
  emulated::require_aligned(shared, "copy_async_16");
  if (inside) emulated::require_aligned(global, "copy_async_16");
  emulation::begin_copy(shared, inside ? global : nullptr, 16);
}
inline void commit_copies() {
  emulation::commit_copies();
}
template <int n>
void wait_copies() {
  emulation::wait_copies(n);
}

}  // namespace babelring::cuda
