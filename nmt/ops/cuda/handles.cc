#include "nmt/ops/cuda/handles.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "base/failure.h"

namespace babelring::cuda {
namespace {

/// Every byte of new memory. Of poison, floats of both widths are NaN and integers -1.
int fill_byte() {
  const char* poison = std::getenv("BABELRING_CUDA_POISON");
  return poison != nullptr && std::string_view(poison) == "1" ? 0xff : 0;
}

}  // namespace

void require(cudaError_t status, std::string_view call) {
  if (status != cudaSuccess) fail("cuda: {}: {} ({})", call, cudaGetErrorString(status), cudaGetErrorName(status));
}

void require(cublasStatus_t status, std::string_view call) {
  if (status != CUBLAS_STATUS_SUCCESS) fail("cuda: {}: {}", call, cublasLtGetStatusName(status));
}

Stream make_stream() {
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "a stream");
  return Stream(stream);
}

Event make_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
  return Event(event);
}

Event make_timed_event() {
  cudaEvent_t event = nullptr;
  require(cudaEventCreateWithFlags(&event, cudaEventDefault), "an event");
  return Event(event);
}

Buffer allocate_pinned(std::size_t bytes) {
  void* data = nullptr;
  require(cudaHostAlloc(&data, bytes, cudaHostAllocDefault), "allocating pinned memory");
  return Buffer(data, bytes, [](void* memory) { cudaFreeHost(memory); });
}

Buffer allocate_device(std::size_t bytes) {
  return allocate_device_for("ops beside their operands", bytes);
}

Buffer allocate_device_for(std::string_view purpose, std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());  // or the next launch would be blamed for it
    std::size_t unused = 0, installed = 0;
    require(cudaMemGetInfo(&unused, &installed), "asking for free memory");
    fail("out of memory on the GPU: {} bytes were needed for {}; {} of {} are free", bytes, purpose, unused, installed);
  }
  require(status, "allocating memory");
  Buffer buffer(data, bytes, [](void* memory) { cudaFree(memory); });
  require(cudaMemset(data, fill_byte(), bytes), "clearing memory");
  // The default stream did it; streams of ours do not wait for that one.
  require(cudaStreamSynchronize(nullptr), "clearing memory");
  return buffer;
}

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
