#pragma once

#include <memory>

#include "nmt/core/device_stream.h"
#include "nmt/ops/cuda/cuda_events.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

/// A second stream on a backend's device.
class SideStream final : public DeviceStream {
 public:
  /// `backend_stream` must outlive this object.
  SideStream(int device, cudaStream_t backend_stream);

  void* handle() override;
  void after_backend() override;
  void before_backend() override;
  Buffer allocate(std::size_t bytes) override;
  void convert(ConstTensor from, Tensor to) override;
  std::unique_ptr<DeviceEvent> mark() override;

 private:
  int device_;
  cudaStream_t backend_stream_;
  Event given_, queued_;  // the last point of the backend's stream, and of this one, that the other waits for
  Stream stream_;
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
};

}  // namespace babelring::cuda
