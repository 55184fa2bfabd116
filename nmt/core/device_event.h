#pragma once

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

}  // namespace babelring
