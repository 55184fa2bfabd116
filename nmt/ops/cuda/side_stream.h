#pragma once

#include "nmt/core/device_stream.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

/// A stream beside a backend's on the same device.
class SideStream final : public DeviceStream {
 public:
  /// `backend_stream` outlives it.
  SideStream(int device, cudaStream_t backend_stream);

  void* handle() override;
  void after_backend() override;
  void before_backend() override;
  Buffer allocate(std::size_t bytes) override;
  void convert(ConstTensor from, Tensor to) override;
  std::unique_ptr<Mark> mark() override;

 private:
  int device_;
  cudaStream_t backend_stream_;
  Event given_, queued_;  // the last point of the backend's stream, of this one, that the other waits for
  Stream stream_;
};

}  // namespace babelring::cuda
