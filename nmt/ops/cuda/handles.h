#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string_view>
#include <utility>

#include "nmt/core/buffer.h"

/// Everything that CUDA and cuBLASLt hand out, each in a move-only class, and the check of every call.
namespace babelring::cuda {

/// Throw Failure with the call and CUDA's words for the status, unless it is a success.
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

/// Work of one stream does not wait for the default one's.
Stream make_stream();
/// Without timing: only to wait for.
Event make_event();
Event make_timed_event();

/// Zeroed memory of the device now current. Throws Failure: bytes needed and what for, free and installed. With
/// BABELRING_CUDA_POISON=1 in the environment it is filled with NaN instead, so that tests show ops that read memory
/// which nothing has written; training does not work then.
Buffer allocate_device_for(const char* purpose, std::size_t bytes);
/// The same for what ops need besides their operands.
Buffer allocate_device(std::size_t bytes);
/// Page-locked memory of the host, which the device copies from and to asynchronously.
Buffer allocate_pinned(std::size_t bytes);

}  // namespace babelring::cuda
