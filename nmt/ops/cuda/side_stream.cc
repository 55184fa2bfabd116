#include "nmt/ops/cuda/side_stream.h"

#include <utility>

#include "base/failure.h"
#include "nmt/ops/cuda/kernels.h"

namespace babelring::cuda {
namespace {

class EventMark final : public DeviceStream::Mark {
 public:
  EventMark(int device, cudaStream_t stream, std::shared_ptr<EventPool> events)
      : device_(device), events_(std::move(events)), event_(events_->take()) {
    require(cudaEventRecord(event_.get(), stream), "marking a stream");
  }
  ~EventMark() override { events_->give(std::move(event_)); }
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;

  /// The thread that asks may never have used a GPU: without a current device it would get a context on device 0.
  bool reached() const override {
    require(cudaSetDevice(device_), "taking the device");
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // or the next launch would be blamed for it
      return false;
    }
    require(status, "asking for an event");
    return true;
  }
  double ms_since(const Mark& earlier) const override {
    float ms = 0;
    require(cudaSetDevice(device_), "taking the device");
    require(cudaEventElapsedTime(&ms, static_cast<const EventMark&>(earlier).event_.get(), event_.get()),
            "time between events");
    return static_cast<double>(ms);
  }

 private:
  int device_;
  std::shared_ptr<EventPool> events_;
  Event event_;
};

/// What `later` gets from now on waits for what `earlier` has got so far.
void order(cudaStream_t earlier, const Event& event, cudaStream_t later) {
  require(cudaEventRecord(event.get(), earlier), "marking a stream");
  require(cudaStreamWaitEvent(later, event.get(), 0), "letting a stream wait");
}

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

SideStream::SideStream(int device, cudaStream_t backend_stream)
    : device_(device),
      backend_stream_(backend_stream),
      given_(make_event()),
      queued_(make_event()),
      stream_(make_stream()) {}

void* SideStream::handle() {
  require(cudaSetDevice(device_), "taking the device");
  return stream_.get();
}

void SideStream::after_backend() {
  handle();
  order(backend_stream_, given_, stream_.get());
}

void SideStream::before_backend() {
  handle();
  order(stream_.get(), queued_, backend_stream_);
}

Buffer SideStream::allocate(std::size_t bytes) {
  handle();
  return allocate_device_for("communication", bytes);
}

void SideStream::convert(ConstTensor from, Tensor to) {
  handle();
  cast(from, to, stream_.get());
}

std::unique_ptr<DeviceStream::Mark> SideStream::mark() {
  handle();
  return std::make_unique<EventMark>(device_, stream_.get(), events_);
}

}  // namespace babelring::cuda
