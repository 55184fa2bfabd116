#pragma once

#include <memory>

#include "base/clock.h"
#include "nmt/core/device_event.h"

namespace babelring {

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

}  // namespace babelring
