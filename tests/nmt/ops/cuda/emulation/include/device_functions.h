#pragma once

#include <math.h>
#include <vector_types.h>

#include <bit>
#include <source_location>

#include "tests/nmt/ops/cuda/emulation/threads.h"

/// The parts of CUDA C++ that the kernels use and C++ does not have; functions keep CUDA's names.
#define __global__
#define __device__
#define __host__
#define __shared__ thread_local
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

/// A kernel may be launched to overlap the one before only if each thread begins with this.
inline void cudaGridDependencySynchronize() {
  babelring::emulation::await_earlier_kernels();
}
inline void cudaTriggerProgrammaticLaunchCompletion() {}

inline void __syncthreads(std::source_location where = std::source_location::current()) {
  babelring::emulation::meet_block(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffU, std::source_location where = std::source_location::current()) {
  babelring::emulation::meet_lanes(mask, nullptr, nullptr, [](auto&) {}, "__syncwarp", where);
}

namespace babelring::emulation {

/// A lane's part in a shuffle: each gets the value of the lane it names, or keeps its own.
template <class T>
struct Shuffled {
  T value;
  int from;
};
template <class T>
T shuffle(unsigned mask, T value, int from, const char* what, std::source_location where) {
  const Shuffled<T> mine{value, from};
  T result{};
  const Combine combine = [](Meeting& meeting) {
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if ((meeting.present >> lane & 1) == 0) continue;
      const int source = static_cast<const Shuffled<T>*>(meeting.in[lane])->from;
      if ((meeting.present >> source & 1) == 0) {
        fault("lane " + std::to_string(lane) + " of a shuffle wants the value of lane " + std::to_string(source) +
              ", which takes no part");
      }
      *static_cast<T*>(meeting.out[lane]) = static_cast<const Shuffled<T>*>(meeting.in[source])->value;
    }
  };
  meet_lanes(mask, &mine, &result, combine, what, where);
  return result;
}

/// The conditions of the lanes, one bit each.
inline unsigned ballot(unsigned mask, bool condition, const char* what, std::source_location where) {
  unsigned result = 0;
  const Combine combine = [](Meeting& meeting) {
    unsigned bits = 0;
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if ((meeting.present >> lane & 1) != 0 && *static_cast<const bool*>(meeting.in[lane])) bits |= 1U << lane;
    }
    for (int lane = 0; lane < warp_lanes; ++lane) {
      if ((meeting.present >> lane & 1) != 0) *static_cast<unsigned*>(meeting.out[lane]) = bits;
    }
  };
  meet_lanes(mask, &condition, &result, combine, what, where);
  return result;
}

}  // namespace babelring::emulation

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int apart, std::source_location where = std::source_location::current()) {
  return babelring::emulation::shuffle(mask, value, (babelring::emulation::own_lane() ^ apart) & 31, "__shfl_xor_sync",
                                       where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int apart, std::source_location where = std::source_location::current()) {
  const int own = babelring::emulation::own_lane();
  return babelring::emulation::shuffle(mask, value, own + apart < 32 ? own + apart : own, "__shfl_down_sync", where);
}
inline unsigned __ballot_sync(unsigned mask, bool condition,
                              std::source_location where = std::source_location::current()) {
  return babelring::emulation::ballot(mask, condition, "__ballot_sync", where);
}
inline bool __any_sync(unsigned mask, bool condition, std::source_location where = std::source_location::current()) {
  return babelring::emulation::ballot(mask, condition, "__any_sync", where) != 0;
}
inline bool __all_sync(unsigned mask, bool condition, std::source_location where = std::source_location::current()) {
  return babelring::emulation::ballot(mask, !condition, "__all_sync", where) == 0;
}

// One thread runs at a time, and gives way at meetings only: every access is atomic.
template <class T>
T atomicCAS(T* place, T expected, T value) {
  const T before = *place;
  if (before == expected) *place = value;
  return before;
}
template <class T>
T atomicAdd(T* place, T value) {
  const T before = *place;
  *place = before + value;
  return before;
}
inline void __threadfence() {}
inline float __fmul_rn(float a, float b) {
  return a * b;
}

/// A store whose line leaves the caches first.
template <class T>
void __stcs(T* place, T value) {
  *place = value;
}

inline int min(int a, int b) {
  return a < b ? a : b;
}
inline int max(int a, int b) {
  return a > b ? a : b;
}
inline float sinpif(float half_turns) {
  return static_cast<float>(sin(M_PI * static_cast<double>(half_turns)));
}
inline float cospif(float half_turns) {
  return static_cast<float>(cos(M_PI * static_cast<double>(half_turns)));
}
