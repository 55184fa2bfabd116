#pragma once

#include <cstddef>
#include <memory>

#include "nmt/core/buffer.h"
#include "nmt/core/device_event.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A GPU stream that runs concurrently with the backend's own stream. One thread queues work.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  /// The cudaStream_t, for NVIDIA's libraries. Also selects its device for the calling thread.
  virtual void* handle() = 0;
  /// Makes later work on this stream wait for all work queued on the backend so far.
  virtual void after_backend() = 0;
  /// Makes later work on the backend wait for all work queued on this stream so far. Blocks the host only if the device
  /// cannot order the two streams itself.
  virtual void before_backend() = 0;
  /// Allocates zeroed device memory. Throws Failure with requested and free bytes if out of memory.
  virtual Buffer allocate(std::size_t bytes) = 0;
  /// Queues an element-wise copy that converts between data types. f32 to bf16 rounds to nearest, ties to even. Both
  /// tensors are contiguous and have the same number of elements.
  virtual void convert(ConstTensor from, Tensor to) = 0;
  /// Records an event after all work queued so far.
  virtual std::unique_ptr<DeviceEvent> mark() = 0;
};

}  // namespace babelring
