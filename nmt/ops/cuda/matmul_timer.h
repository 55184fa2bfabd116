#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

namespace babelring::cuda {

/// Milliseconds of each of `count` pieces of work, the least of up to three runs, for which the L2 cache holds nothing
/// of their operands. `run(i)` gives piece i to the stream; false: it cannot run, and its time is infinite. A piece
/// that is much slower than another is run less often. Waits for the stream. Empty where the device lacks the memory
/// that is needed to overwrite the cache.
std::vector<float> time_with_cold_cache(int count, const std::function<bool(int)>& run, cudaStream_t stream);

/// The index of the shortest time. The first is preferred to those that are less than 2 % shorter.
std::size_t shortest(const std::vector<float>& ms);

/// Whether this many bytes can be allocated and leave some for others.
bool has_device_memory(std::size_t bytes);

}  // namespace babelring::cuda
