#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "nmt/base/result.h"

namespace babelring {

/// What a GPU says of itself at a moment. What it does not tell is 0, and absent from `values` and `counters`.
struct GpuReading {
  double power_w = 0, power_limit_w = 0;
  std::map<std::string, std::int64_t> values;    // utilization_percent, clock_mhz, memory_clock_mhz, memory_used_bytes
  std::map<std::string, std::int64_t> counters;  // bytes since some moment: nvlink_rx_bytes, …, pcie_tx_bytes
};

/// Where readings of one GPU come from. For one thread at a time.
class GpuSource {
 public:
  virtual ~GpuSource() = default;
  /// The Error says why there will be no more: the GPU is lost.
  virtual Result<GpuReading> read() = 0;
};

inline constexpr char nvml_library[] = "libnvidia-ml.so.1";

/// A GPU as NVIDIA's management library sees it, which comes with the driver and is opened here and now; functions that
/// an older one lacks are left out. `identity`: the UUID that CUDA knows it by, 32 hexadecimal digits: numbers would
/// differ under CUDA_VISIBLE_DEVICES. The Error says in one line what is missing.
Result<std::unique_ptr<GpuSource>> open_nvml(const std::string& identity, const std::string& library = nvml_library);

}  // namespace babelring
