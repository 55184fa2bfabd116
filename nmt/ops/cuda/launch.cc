#include <map>
#include <mutex>
#include <utility>

#include "base/failure.h"
#include "nmt/ops/cuda/launch.cuh"
#include "nmt/ops/cuda/launch.h"

namespace babelring::cuda {

namespace {

/// A copy of what the driver keeps for the whole process: a limit for each kernel and device.
struct SharedMemoryLimits {
  std::mutex mutex;
  std::map<std::pair<const void*, int>, std::size_t> bytes;
};

}  // namespace

void refuse_quantized(std::string_view op) {
  fail("{}: found weights in int8 on a GPU, which only processors read", op);
}

void run(const QuantizedLinear& op, CudaContext&) {
  refuse_quantized(op.name);
}

void allow_shared_memory(std::string_view what, const void* kernel, std::size_t bytes) {
  static SharedMemoryLimits limits;
  int device = 0;
  require(cudaGetDevice(&device), what);
  const std::lock_guard lock(limits.mutex);
  std::size_t& limit = limits.bytes[{kernel, device}];
  if (bytes <= limit) return;
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), what);
  limit = bytes;
}

}  // namespace babelring::cuda
