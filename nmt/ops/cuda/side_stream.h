#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "nmt/core/device_stream.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

/// Timed events to use again: cudaEventDestroy() may wait for the device, and the thread that drops a mark must not.
class EventPool {
 public:
  /// Makes one, on the current device, where none is left.
  Event take();
  void give(Event event);

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<Event> events_;
};

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
  std::shared_ptr<EventPool> events_ = std::make_shared<EventPool>();
};

}  // namespace babelring::cuda
