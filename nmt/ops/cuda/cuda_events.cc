#include "nmt/ops/cuda/cuda_events.h"

namespace babelring::cuda {

void CudaEvents::record(std::size_t mark) {
  while (events_.size() <= mark) events_.push_back(make_timed_event());
  require(cudaEventRecord(events_[mark].get(), stream_), "marking work");
}

bool CudaEvents::reached(std::size_t mark) {
  const cudaError_t status = cudaEventQuery(events_.at(mark).get());
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // or the next launch would be blamed for it
    return false;
  }
  require(status, "looking for a mark");
  return true;
}

double CudaEvents::between_ms(std::size_t first, std::size_t second) {
  float ms = 0;
  require(cudaEventElapsedTime(&ms, events_.at(first).get(), events_.at(second).get()), "timing work");
  return static_cast<double>(ms);
}

}  // namespace babelring::cuda
