#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/core/buffer.h"
#include "nmt/core/device_stream.h"

/// Owners for the handles of CUDA and cuBLASLt, checks of their calls, and device memory.

namespace babelring::cuda {

/// Throw Failure with `call` and the library's text for the status unless the call succeeded.
void require(cudaError_t status, std::string_view call);
void require(cublasStatus_t status, std::string_view call);

/// A C handle and the function that releases it.
template <class Handle, auto release>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  ~Owned() {
    if (handle_ != nullptr) release(handle_);
  }
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_ = nullptr;
};

using Stream = Owned<cudaStream_t, cudaStreamDestroy>;
using Event = Owned<cudaEvent_t, cudaEventDestroy>;
using BlasHandle = Owned<cublasLtHandle_t, cublasLtDestroy>;
using MatmulDescription = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixLayout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using MatmulPreference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// Creates a stream that does not synchronize with the default stream.
Stream make_stream();
/// Creates an event without timing, to wait for.
Event make_event();
Event make_timed_event();

/// Allocates zeroed memory on the current device. Throws Failure with the bytes needed, `purpose`, and the free and
/// installed bytes. With BABELRING_CUDA_POISON=1 in the environment, the memory contains NaN instead, so that tests
/// find ops that read memory before it is written; training does not work then.
Buffer allocate_device_for(std::string_view purpose, std::size_t bytes);
/// allocate_device_for() for memory that ops need in addition to their operands.
Buffer allocate_device(std::size_t bytes);
/// Allocates page-locked host memory, which allows asynchronous copies.
Buffer allocate_pinned(std::size_t bytes);

/// Timed events for reuse: cudaEventDestroy() may wait for the device, and the thread that drops an event must not.
/// Thread-safe.
class EventPool {
 public:
  /// Creates an event on the current device if none is left.
  Event take();
  void give(Event event);

 private:
  std::mutex mutex_;  // guards the member below
  std::vector<Event> events_;
};

/// Records an event of the pool after all work of the stream so far. `device`, the stream's, must be the current one.
std::unique_ptr<DeviceEvent> record_event(int device, cudaStream_t stream, std::shared_ptr<EventPool> events);

}  // namespace babelring::cuda
