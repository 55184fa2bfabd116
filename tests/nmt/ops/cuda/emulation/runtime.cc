#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>

#include "tests/nmt/ops/cuda/emulation/device.h"

/// The device, its memory and launches of kernels.
namespace babelring::emulation {

namespace {

constexpr std::size_t free_shared_bytes = 48 << 10;

std::string fault_of_shape(const cudaLaunchConfig_t& config) {
  const dim3 &grid = config.gridDim, &block = config.blockDim;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffU || grid.y > 65535 || grid.z > 65535) {
    return fmt::format("a grid of {} x {} x {} blocks, 1 to 2147483647 x 65535 x 65535 are possible", grid.x, grid.y,
                       grid.z);
  }
  if (threads == 0 || threads > 1024 || block.z > 64) {
    return fmt::format("a block of {} x {} x {} threads, 1 to 1024 are possible", block.x, block.y, block.z);
  }
  return "";
}

}  // namespace

Device& device() {
  static Device one;
  return one;
}

int& current_device() {
  static thread_local int current = 0;
  return current;
}

cudaError_t check_shared_bytes(const void* kernel, std::size_t bytes) {
  const auto found = device().shared_limits.find({kernel, current_device()});
  const std::size_t limit = found == device().shared_limits.end() ? free_shared_bytes : found->second;
  if (bytes <= limit) return cudaSuccess;
  return refuse(cudaErrorInvalidConfiguration,
                fmt::format("a block with {} bytes of dynamic shared memory, the kernel may have {}", bytes, limit));
}

cudaError_t check_device(int owner, const char* what) {
  if (owner == current_device()) return cudaSuccess;
  return refuse(
      cudaErrorInvalidResourceHandle,
      fmt::format("{} of device {} is used by a thread whose current device is {}, which gets a context there", what,
                  owner, current_device()));
}

cudaError_t refuse(cudaError_t error, std::string why) {
  device().last_fault = std::move(why);
  return error;
}

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel, std::initializer_list<Argument> arguments,
                   std::function<void()> thread) {
  const std::lock_guard lock(device().mutex);
  std::string fault = fault_of_shape(config);
  if (!fault.empty()) return refuse(cudaErrorInvalidConfiguration, std::move(fault));
  cudaError_t status = check_shared_bytes(kernel, config.dynamicSmemBytes);
  if (status == cudaSuccess && config.stream != nullptr) status = check_device(config.stream->device, "a stream");
  if (status != cudaSuccess) return status;
  int number = 0;
  for (const Argument& argument : arguments) {
    ++number;
    const std::uintptr_t address = device().memory.find_host_address(argument.place, argument.bytes);
    if (address == 0) continue;
    return refuse(cudaErrorInvalidValue,
                  fmt::format("argument {} of a kernel has the host's address {:#x} in it", number, address));
  }
  const bool overlaps = config.numAttrs > 0 && config.attrs->val.programmaticStreamSerializationAllowed != 0;
  submit(stream_of(config.stream),
         {.work = [grid = config.gridDim, block = config.blockDim, shared = config.dynamicSmemBytes, overlaps,
                   run = std::move(thread)] { return run_grid(grid, block, shared, overlaps, run); },
          .awaits = nullptr,
          .kernel = kernel,
          .shared_bytes = config.dynamicSmemBytes});
  return cudaSuccess;
}

void enqueue(cudaStream_t stream, std::function<void()> work) {
  const std::lock_guard lock(device().mutex);
  submit(stream_of(stream), {.work = [run = std::move(work)] {
           run();
           return std::string();
         }});
}

bool on_device(const void* data, std::size_t bytes) {
  const std::lock_guard lock(device().mutex);
  return device().memory.holds(data, bytes, Place::device);
}

namespace {

void* allocate(std::size_t bytes, Place place) {
  const std::lock_guard lock(device().mutex);
  return device().memory.allocate(bytes, place);
}

/// Like the driver, frees memory when all work that may use it is done.
cudaError_t release(void* data, Place place) {
  const std::lock_guard lock(device().mutex);
  if (data == nullptr) return cudaSuccess;
  device().streams.run_all();
  if (!device().memory.release(data, place)) return refuse(cudaErrorInvalidValue, "memory is freed that is not there");
  return cudaSuccess;
}

cudaError_t set_bytes(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  if (!device().memory.holds(to, bytes, Place::device)) return refuse(cudaErrorInvalidValue, "not the device's memory");
  if (value == 0 && device().memory.still_zero(to, bytes)) return cudaSuccess;
  submit(stream_of(stream), {.work = [=] {
           std::memset(to, value, bytes);
           return std::string();
         }});
  return cudaSuccess;
}

/// Like the driver, copies memory that is not pinned before it returns.
cudaError_t upload(void* to, const void* from, std::size_t bytes, Stream& stream) {
  if (device().memory.holds(from, bytes, Place::pinned)) {
    submit(stream, {.work = [=] {
             std::memcpy(to, from, bytes);
             return std::string();
           }});
    return cudaSuccess;
  }
  const auto* first = static_cast<const std::byte*>(from);
  submit(stream, {.work = [to, taken = std::vector<std::byte>(first, first + bytes)] {
           std::memcpy(to, taken.data(), taken.size());
           return std::string();
         }});
  return cudaSuccess;
}

/// To memory that is not pinned it has copied when it returns.
cudaError_t download(void* to, const void* from, std::size_t bytes, Stream& stream) {
  const bool pinned = device().memory.holds(to, bytes, Place::pinned);
  if (!pinned && stream.captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  submit(stream, {.work = [=] {
           std::memcpy(to, from, bytes);
           return std::string();
         }});
  if (pinned) return cudaSuccess;
  device().streams.run_until_empty(stream);
  return outcome();
}

}  // namespace

}  // namespace babelring::emulation

using babelring::emulation::device;
using babelring::emulation::Place;
using babelring::emulation::refuse;

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration:
      return "cudaErrorInvalidConfiguration";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
      return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorLaunchFailure:
      return "cudaErrorLaunchFailure";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
  }
  return "cudaErrorUnknown";
}

/// In the emulation's own words, where it has some.
const char* cudaGetErrorString(cudaError_t error) {
  const std::lock_guard lock(device().mutex);
  const bool own = error == cudaErrorInvalidValue || error == cudaErrorInvalidConfiguration ||
                   error == cudaErrorLaunchFailure || error == cudaErrorInvalidResourceHandle;
  return own && !device().last_fault.empty() ? device().last_fault.c_str() : cudaGetErrorName(error);
}

/// Every call's own answer is looked at.
cudaError_t cudaGetLastError() {
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = babelring::emulation::devices;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* number) {
  *number = babelring::emulation::current_device();
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int number) {
  if (number < 0 || number >= babelring::emulation::devices) return cudaErrorInvalidDevice;
  babelring::emulation::current_device() = number;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int number) {
  if (number < 0 || number >= babelring::emulation::devices) return cudaErrorInvalidDevice;
  *properties = {.name = "emulated threads",
                 .uuid = {"emulated"},
                 .totalGlobalMem = babelring::emulation::Memory::installed,
                 .major = 9,
                 .minor = 0};
  properties->uuid.bytes[15] = static_cast<char>(number);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int number) {
  if (number < 0 || number >= babelring::emulation::devices) return cudaErrorInvalidDevice;
  switch (attribute) {
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = babelring::emulation::max_shared_bytes;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 2;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrL2CacheSize:
      *value = 4096;
      return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute, int value) {
  const std::lock_guard lock(device().mutex);
  const auto bytes = static_cast<std::size_t>(value);
  if (bytes > babelring::emulation::max_shared_bytes) {
    return refuse(cudaErrorInvalidValue, fmt::format("{} bytes of dynamic shared memory, a block can have {}", value,
                                                     babelring::emulation::max_shared_bytes));
  }
  device().shared_limits[{kernel, babelring::emulation::current_device()}] = bytes;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  *data = babelring::emulation::allocate(bytes, Place::device);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* data) {
  return babelring::emulation::release(data, Place::device);
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  *data = babelring::emulation::allocate(bytes, Place::pinned);
  return *data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFreeHost(void* data) {
  return babelring::emulation::release(data, Place::pinned);
}
cudaError_t cudaMemGetInfo(std::size_t* unused, std::size_t* installed) {
  const std::lock_guard lock(device().mutex);
  *unused = device().memory.unused();
  *installed = babelring::emulation::Memory::installed;
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return babelring::emulation::set_bytes(to, value, bytes, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return babelring::emulation::set_bytes(to, value, bytes, stream);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  const auto& memory = device().memory;
  const bool to_device = memory.holds(to, bytes, Place::device), from_device = memory.holds(from, bytes, Place::device);
  if (to_device != (kind != cudaMemcpyDeviceToHost) || from_device != (kind != cudaMemcpyHostToDevice)) {
    return refuse(cudaErrorInvalidValue, "a copy's memory is not where its kind says");
  }
  auto& queue = babelring::emulation::stream_of(stream);
  return kind == cudaMemcpyHostToDevice ? babelring::emulation::upload(to, from, bytes, queue)
                                        : babelring::emulation::download(to, from, bytes, queue);
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status == cudaSuccess ? cudaStreamSynchronize(nullptr) : status;
}
