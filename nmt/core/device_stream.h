#pragma once

#include <cstddef>
#include <memory>

#include "base/clock.h"
#include "nmt/core/buffer.h"
#include "nmt/core/tensor.h"

namespace babelring {

/// A recorded position in a device's sequence of work (a CUDA event). May be queried from any thread.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;
  /// True if all work queued before the event is complete. Never blocks. Throws Failure if that work failed.
  virtual bool reached() const = 0;
  /// Device time in ms since `earlier`, an event of the same stream. Both must have been reached.
  virtual double ms_since(const DeviceEvent& earlier) const = 0;
};

/// Converts events of a device to the host's clock. Immutable, so threads may share it.
class DeviceClock {
 public:
  /// Waits until `anchor` is reached. Later times are its host time plus the device time since, so they are late by at
  /// most the time from the device's reaching the anchor to the host's noticing it.
  explicit DeviceClock(std::unique_ptr<const DeviceEvent> anchor);

  /// The host time at which the device reached `event`. It must have been reached, and be on the anchor's stream.
  SteadyClock::time_point at(const DeviceEvent& event) const;

 private:
  std::unique_ptr<const DeviceEvent> anchor_;
  SteadyClock::time_point anchored_;
};

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
