#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/nmt/ops/cuda/emulation/memory.h"
#include "tests/nmt/ops/cuda/emulation/streams.h"

/// The objects behind CUDA's handles, and the devices.
struct CUstream_st {
  babelring::emulation::Stream* stream;
  int device;
};
struct CUevent_st {
  int device;
  std::thread::id maker;
  std::shared_ptr<babelring::emulation::Mark> mark;  // of the last recording; null before the first
};
struct CUgraph_st {
  std::vector<babelring::emulation::Task> tasks;
};
struct CUgraphExec_st {
  std::vector<babelring::emulation::Task> tasks;
};

namespace babelring::emulation {

/// Two devices that share a memory and run each other's streams: what tells them apart is which of them a stream, an
/// event and a kernel's limit belong to, and which is a thread's current one. Calls come from any thread and take the
/// lock: one at a time.
constexpr int devices = 2;
struct Device {
  std::mutex mutex;
  Memory memory;
  Streams streams;
  Stream* default_stream = streams.create();
  std::map<std::pair<const void*, int>, std::size_t> shared_limits;  // of kernels that asked for more, by device
  std::string last_fault;
  std::chrono::hours pretended{0};  // events tell so much more than has passed
};
Device& device();
/// The calling thread's.
int& current_device();

// With the lock held.
Stream& stream_of(cudaStream_t stream);
/// Into a stream's queue, or into the graph that it records.
void submit(Stream& stream, Task task);
/// Returns and forgets the first error since the last call.
cudaError_t outcome();
cudaError_t refuse(cudaError_t error, std::string why);
/// Refuses a launch with more dynamic shared memory than the kernel may have on the current device now.
cudaError_t check_shared_bytes(const void* kernel, std::size_t bytes);
/// Refuses what belongs to another device than the thread's current one.
cudaError_t check_device(int owner, const char* what);

}  // namespace babelring::emulation
