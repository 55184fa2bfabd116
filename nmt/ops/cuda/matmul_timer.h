#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace babelring::cuda {

/// Measures `count` pieces of work with an L2 cache that holds none of their operands. Returns the shortest of up to
/// three runs of each, in milliseconds; a piece that is much slower than another runs less often. `run(i)` submits
/// piece i to the stream, or returns false if it cannot run, which gives an infinite time. Waits for the stream.
/// Returns an empty vector if the device lacks the memory to overwrite the cache.
std::vector<float> time_with_cold_cache(int count, const std::function<bool(int)>& run, cudaStream_t stream);

/// The index of the shortest time. Times that are less than 2 % shorter than the first do not count.
std::size_t shortest(const std::vector<float>& ms);

/// True if `bytes` bytes of device memory can be allocated and some remain.
bool has_device_memory(std::size_t bytes);

}  // namespace babelring::cuda
