#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "nmt/core/random.h"
#include "nmt/core/tensor.h"
#include "nmt/ops/cuda/cuda_context.h"

/// Arithmetic shared by all kernels.
namespace babelring::cuda {

inline constexpr int warp_lanes = 32;
inline constexpr unsigned all_lanes = 0xffffffffU;
inline constexpr float log2_e = 1.4426950408889634f;

/// The first statement of every kernel: waits until all writes of earlier kernels in the stream are visible, then lets
/// the device start blocks of the next kernel on multiprocessors that become free. Does nothing in kernels that were
/// launched without overlap (WorkStream::overlaps()).
__device__ inline void await_earlier_kernels() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/// The device's twin of BFloat16: the same bits.
using bfloat = __nv_bfloat16;
static_assert(sizeof(bfloat) == sizeof(BFloat16));

__device__ inline float widen(float value) {
  return value;
}
__device__ inline float widen(bfloat value) {
  return __bfloat162float(value);
}
/// Rounded to nearest, ties to even.
template <class T>
__device__ inline T narrow(float value) {
  if constexpr (sizeof(T) == 2) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}
/// Two numbers in a word, each rounded to nearest, ties to even; `low` is the one at the lower address.
__device__ inline unsigned pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const unsigned*>(&pair);
}
/// The value as it reads once stored as T.
template <class T>
__device__ inline float as_stored(float value) {
  return widen(narrow<T>(value));
}

/// Calls body(float()) or body(bfloat()).
template <class Body>
void with_device_type(DType type, Body&& body) {
  type == DType::bf16 ? body(bfloat()) : body(float());
}

/// The key with what is at its place.
__device__ inline DropoutKey read_key(DropoutKey key) {
  if (key.place == nullptr) return key;
  key.key = key.place->key, key.first_row = key.place->first_row;
  key.place = nullptr;
  return key;
}

/// Dropout of one row of a tensor: the bits of DropoutKey.
struct DeviceDropoutRow {
  __device__ DeviceDropoutRow(const DropoutKey& key, std::int64_t row)
      : threshold(key.threshold()), row_key(threshold > 0 ? read_key(key).row_key(row) : 0), scale(key.scale()) {}
  __device__ bool keeps(std::uint32_t column) const {
    return threshold == 0 || DropoutKey::bits(row_key, column) >= threshold;
  }
  /// The element times 0 or the scale of survivors.
  __device__ float apply(float value, std::uint32_t column) const { return keeps(column) ? value * scale : 0.0f; }
  /// The same of neighbouring elements, the first one's column being even where there are several: one hash for two.
  template <int n>
  __device__ void apply(float (&values)[n], std::uint32_t column) const {
    if (threshold == 0) return;
    if constexpr (n == 1) {
      values[0] = apply(values[0], column);
    } else {
#pragma unroll
      for (int e = 0; e < n; e += 2) {
        const std::uint32_t bits = mix32(row_key ^ ((column + e) / 2 * DropoutKey::pair_factor));
        values[e] = (bits & 0xffffU) >= threshold ? values[e] * scale : 0.0f;
        values[e + 1] = bits >> 16 >= threshold ? values[e + 1] * scale : 0.0f;
      }
    }
  }

  std::uint32_t threshold, row_key;
  float scale;
};

/// Over the lanes of a warp, in a fixed order; every lane has the result.
__device__ inline float warp_sum(float value) {
  for (int apart = warp_lanes / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(all_lanes, value, apart);
  return value;
}
__device__ inline float warp_max(float value) {
  for (int apart = warp_lanes / 2; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_xor_sync(all_lanes, value, apart));
  }
  return value;
}

/// Over the threads of a block of `threads`; every thread has the result. All threads call it.
template <int threads, class Combine>
__device__ inline float block_reduce(float value, Combine combine) {
  __shared__ float of_warps[threads / warp_lanes];
  for (int apart = warp_lanes / 2; apart > 0; apart /= 2) {
    value = combine(value, __shfl_xor_sync(all_lanes, value, apart));
  }
  if (threadIdx.x % warp_lanes == 0) of_warps[threadIdx.x / warp_lanes] = value;
  __syncthreads();
  value = of_warps[0];
  for (int w = 1; w < threads / warp_lanes; ++w) value = combine(value, of_warps[w]);
  __syncthreads();  // before the next reduction writes
  return value;
}

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// The shared memory of LaunchShape::shared_bytes, aligned for everything.
template <class T>
__device__ inline T* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
}

/// Whether an index is in [0, bound); tells the context of the first that is not.
__device__ inline bool index_in_range(int value, int bound, std::int64_t row, BadIndex place, IndexError* error) {
  if (value >= 0 && value < bound) return true;
  if (atomicCAS(&error->place, 0, static_cast<int>(place)) == 0) {
    error->value = value, error->bound = bound, error->row = row;
  }
  return false;
}

/// The number of blocks for `elements`: at most max_blocks, whose threads loop over the rest.
constexpr int elementwise_threads = 256;
inline unsigned elementwise_blocks(std::int64_t elements) {
  constexpr std::int64_t max_blocks = 1 << 20;
  const std::int64_t blocks = (elements + elementwise_threads - 1) / elementwise_threads;
  return static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
}
__device__ inline std::int64_t first_element() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t element_step() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

}  // namespace babelring::cuda
