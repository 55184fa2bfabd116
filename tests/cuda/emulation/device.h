#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "tests/cuda/emulation/memory.h"
#include "tests/cuda/emulation/streams.h"

/// What CUDA's handles point to, and the one device.
struct CUstream_st {
  babelring::emulation::Stream* stream;
};
struct CUevent_st {
  std::shared_ptr<babelring::emulation::Mark> mark;  // of the last recording; null before the first
};
struct CUgraph_st {
  std::vector<babelring::emulation::Task> tasks;
};
struct CUgraphExec_st {
  std::vector<babelring::emulation::Task> tasks;
};

namespace babelring::emulation {

/// Calls come from any thread and take the lock: one at a time.
struct Device {
  std::mutex mutex;
  Memory memory;
  Streams streams;
  Stream* default_stream = streams.create();
  std::unordered_map<const void*, std::size_t> shared_limits;  // of kernels that asked for more
  std::string last_fault;
};
Device& device();

// With the lock held.
Stream& stream_of(cudaStream_t stream);
/// Into a stream's queue, or into the graph that it records.
void submit(Stream& stream, Task task);
/// What waiting ends with: the first thing that went wrong since it was last asked for.
cudaError_t outcome();
cudaError_t refuse(cudaError_t error, std::string why);

}  // namespace babelring::emulation
