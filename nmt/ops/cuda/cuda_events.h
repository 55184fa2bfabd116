#pragma once

#include <vector>

#include "nmt/ops/cuda/handles.h"
#include "nmt/ops/device_events.h"

namespace babelring::cuda {

/// Marks in a stream, which must outlive the object.
class CudaEvents final : public DeviceEvents {
 public:
  explicit CudaEvents(cudaStream_t stream) : stream_(stream) {}

  void record(std::size_t mark) override;
  bool reached(std::size_t mark) override;
  double between_ms(std::size_t first, std::size_t second) override;

 private:
  cudaStream_t stream_;
  std::vector<Event> events_;
};

}  // namespace babelring::cuda
