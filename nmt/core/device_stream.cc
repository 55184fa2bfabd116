#include "nmt/core/device_stream.h"

#include <thread>

namespace babelring {

DeviceClock::DeviceClock(std::unique_ptr<const DeviceEvent> anchor) : anchor_(std::move(anchor)) {
  while (!anchor_->reached()) std::this_thread::yield();
  anchored_ = SteadyClock::now();
}

SteadyClock::time_point DeviceClock::at(const DeviceEvent& event) const {
  const std::chrono::duration<double, std::milli> since(event.ms_since(*anchor_));
  return anchored_ + std::chrono::duration_cast<Nanoseconds>(since);
}

}  // namespace babelring
