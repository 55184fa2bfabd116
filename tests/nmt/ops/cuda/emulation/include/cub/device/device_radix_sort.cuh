#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace cub {

/// CUB's sort by keys' bits [begin_bit, end_bit), which keeps equal keys in order.
struct DeviceRadixSort {
  template <class Value>
  static cudaError_t SortPairs(void* room, std::size_t& room_bytes, const unsigned* keys, unsigned* sorted_keys,
                               const Value* values, Value* sorted_values, int count, int begin_bit, int end_bit,
                               cudaStream_t stream) {
    const std::size_t wanted = 1000 + static_cast<std::size_t>(count) * sizeof(Value);
    if (room == nullptr) {
      room_bytes = wanted;
      return cudaSuccess;
    }
    if (room_bytes < wanted) return cudaErrorInvalidValue;
    babelring::emulation::enqueue(stream, [=] {
      std::memset(room, 0xff, wanted);  // it is used
      const std::uint64_t bits = (std::uint64_t{1} << end_bit) - (std::uint64_t{1} << begin_bit);
      std::vector<int> order(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) order[static_cast<std::size_t>(i)] = i;
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return (keys[a] & bits) < (keys[b] & bits); });
      for (int i = 0; i < count; ++i) {
        sorted_keys[i] = keys[order[static_cast<std::size_t>(i)]];
        sorted_values[i] = values[order[static_cast<std::size_t>(i)]];
      }
    });
    return cudaSuccess;
  }
};

}  // namespace cub
