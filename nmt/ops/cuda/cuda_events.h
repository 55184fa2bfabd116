#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "nmt/core/device_event.h"
#include "nmt/ops/cuda/handles.h"

namespace babelring::cuda {

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
