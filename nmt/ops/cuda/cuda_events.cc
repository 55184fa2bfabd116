#include "nmt/ops/cuda/cuda_events.h"

#include <utility>

namespace babelring::cuda {

namespace {

class RecordedEvent final : public DeviceEvent {
 public:
  RecordedEvent(int device, cudaStream_t stream, std::shared_ptr<EventPool> events)
      : device_(device), events_(std::move(events)), event_(events_->take()) {
    require(cudaEventRecord(event_.get(), stream), "recording an event");
  }
  ~RecordedEvent() override { events_->give(std::move(event_)); }
  RecordedEvent(const RecordedEvent&) = delete;
  RecordedEvent& operator=(const RecordedEvent&) = delete;

  /// The calling thread may never have used a GPU: without a current device it would get a context on device 0.
  bool reached() const override {
    require(cudaSetDevice(device_), "taking the device");
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // or the next launch would be blamed for it
      return false;
    }
    require(status, "querying an event");
    return true;
  }
  double ms_since(const DeviceEvent& earlier) const override {
    float ms = 0;
    require(cudaSetDevice(device_), "taking the device");
    require(cudaEventElapsedTime(&ms, static_cast<const RecordedEvent&>(earlier).event_.get(), event_.get()),
            "time between events");
    return static_cast<double>(ms);
  }

 private:
  int device_;
  std::shared_ptr<EventPool> events_;
  Event event_;
};

}  // namespace

Event EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return make_timed_event();
  Event event = std::move(events_.back());
  events_.pop_back();
  return event;
}

void EventPool::give(Event event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
}

std::unique_ptr<DeviceEvent> record_event(int device, cudaStream_t stream, std::shared_ptr<EventPool> events) {
  return std::make_unique<RecordedEvent>(device, stream, std::move(events));
}

}  // namespace babelring::cuda
