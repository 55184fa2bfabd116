#include "nmt/ops/cuda/side_stream.h"

#include "base/failure.h"
#include "nmt/core/memory_ledger.h"
#include "nmt/ops/cuda/kernels.h"

namespace babelring::cuda {
namespace {

/// Later work on `later` waits for all work on `earlier` so far.
void order(cudaStream_t earlier, const Event& event, cudaStream_t later) {
  require(cudaEventRecord(event.get(), earlier), "marking a stream");
  require(cudaStreamWaitEvent(later, event.get(), 0), "letting a stream wait");
}

}  // namespace

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
  return allocate_device_for(name_of(MemoryPurpose::communication), bytes);
}

void SideStream::convert(ConstTensor from, Tensor to) {
  handle();
  cast(from, to, stream_.get());
}

std::unique_ptr<DeviceEvent> SideStream::mark() {
  handle();
  return record_event(device_, stream_.get(), events_);
}

}  // namespace babelring::cuda
