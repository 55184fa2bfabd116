#include <cuda_runtime_api.h>

#include "tests/nmt/ops/cuda/emulation/device.h"

/// Streams, events and graphs.
namespace babelring::emulation {

Stream& stream_of(cudaStream_t stream) {
  return stream == nullptr ? *device().default_stream : *stream->stream;
}

void submit(Stream& stream, Task task) {
  device().memory.touch();
  if (stream.captured != nullptr) {
    stream.captured->push_back(std::move(task));
  } else {
    stream.queue.push_back(std::move(task));
  }
}

cudaError_t outcome() {
  std::string fault = device().streams.take_fault();
  if (fault.empty()) return cudaSuccess;
  return refuse(cudaErrorLaunchFailure, std::move(fault));
}

}  // namespace babelring::emulation

using babelring::emulation::device;
using babelring::emulation::outcome;
using babelring::emulation::stream_of;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(device().mutex);
  *stream = new CUstream_st{device().streams.create(), babelring::emulation::current_device()};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  device().streams.destroy(stream->stream);
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  if (stream_of(stream).captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  device().streams.run_until_empty(stream_of(stream));
  return outcome();
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st{babelring::emulation::current_device(), std::this_thread::get_id(), nullptr};
  return cudaSuccess;
}
/// On a device it may hang behind a kernel that never ends: a thread that watches over others' work must not call it.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event->maker != std::this_thread::get_id()) {
    const std::lock_guard lock(device().mutex);
    device().streams.fail("an event is destroyed by another thread than the one that made it");
  }
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  if (stream_of(stream).captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  event->mark = std::make_shared<babelring::emulation::Mark>();
  stream_of(stream).queue.push_back({.work = [mark = event->mark] {
    mark->when = std::chrono::steady_clock::now() + device().pretended;
    mark->reached = true;
    return std::string();
  }});
  return cudaSuccess;
}
/// Something gets done meanwhile, or who asks again and again would ask for ever.
cudaError_t cudaEventQuery(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  if (const auto status = babelring::emulation::check_device(event->device, "an event"); status != cudaSuccess) {
    return status;
  }
  if (event->mark == nullptr || event->mark->reached) return outcome();
  device().streams.run_one();
  return cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(device().mutex);
  if (event->mark != nullptr) device().streams.run_until(*event->mark);
  return outcome();
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end) {
  const std::lock_guard lock(device().mutex);
  const auto &first = begin->mark, &last = end->mark;
  if (first == nullptr || last == nullptr) return cudaErrorInvalidValue;
  if (!first->reached || !last->reached) return cudaErrorNotReady;
  *ms = std::chrono::duration<float, std::milli>(last->when - first->when).count();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(device().mutex);
  if (event->mark != nullptr) submit(stream_of(stream), {.awaits = event->mark});
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const std::lock_guard lock(device().mutex);
  const bool captured = stream_of(stream).captured != nullptr;
  *status = captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  const std::lock_guard lock(device().mutex);
  if (stream == nullptr || stream->stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  stream->stream->captured = std::make_unique<std::vector<babelring::emulation::Task>>();
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(device().mutex);
  if (stream->stream->captured == nullptr) return cudaErrorInvalidValue;
  *graph = new CUgraph_st{std::move(*stream->stream->captured)};
  stream->stream->captured.reset();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->tasks};
  return cudaSuccess;
}
/// Kernels run under the limits that they have now, whatever they had when they were recorded.
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(device().mutex);
  for (const babelring::emulation::Task& task : executable->tasks) {
    const cudaError_t status = babelring::emulation::check_shared_bytes(task.kernel, task.shared_bytes);
    if (status != cudaSuccess) return status;
  }
  for (const babelring::emulation::Task& task : executable->tasks) submit(stream_of(stream), task);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
