#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace babelring {

/// A GPU's figures at one moment. What it does not report is 0, and absent from `values` and `counters`.
struct GpuReading {
  double power_w = 0, power_limit_w = 0;
  std::map<std::string, std::int64_t> values;    // utilization_percent, clock_mhz, memory_clock_mhz, memory_used_bytes
  std::map<std::string, std::int64_t> counters;  // bytes since an unknown moment: nvlink_rx_bytes, …, pcie_tx_bytes
};

/// Where readings of one GPU come from. For one thread at a time.
class GpuSource {
 public:
  virtual ~GpuSource() = default;
  /// The Error says why there will be no more: the GPU is lost.
  virtual Result<GpuReading> read() = 0;
};

inline constexpr char nvml_library[] = "libnvidia-ml.so.1";

/// Opens NVIDIA's management library, which comes with the driver, for one GPU; figures that an older library does not
/// have are left out. `identity`: the GPU's UUID as CUDA has it, 32 hexadecimal digits; device numbers would differ
/// under CUDA_VISIBLE_DEVICES. The Error says in one line what is missing.
Result<std::unique_ptr<GpuSource>> open_nvml(const std::string& identity, const std::string& library = nvml_library);

}  // namespace babelring
