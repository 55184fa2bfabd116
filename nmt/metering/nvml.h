#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace babelring {

/// One reading of a GPU. Unavailable quantities are 0, or missing from `values` and `counters`.
struct GpuReading {
  double power_w = 0, power_limit_w = 0;
  std::int64_t process_bytes = 0;                // memory of the GPU that the driver says this process holds
  std::map<std::string, std::int64_t> values;    // utilization_percent, clock_mhz, memory_clock_mhz, memory_used_bytes
  std::map<std::string, std::int64_t> counters;  // cumulative bytes: nvlink_rx_bytes, …, pcie_tx_bytes
};

/// Source of readings of one GPU. Not thread-safe.
class GpuSource {
 public:
  virtual ~GpuSource() = default;
  /// An Error means that the GPU is lost and further calls will fail.
  virtual Result<GpuReading> read() = 0;
};

inline constexpr char nvml_library[] = "libnvidia-ml.so.1";

/// Opens NVIDIA's management library (NVML, part of the driver) for one GPU. Omits readings that an older library does
/// not support. `identity` is the GPU's UUID as CUDA reports it, 32 hexadecimal digits; device numbers would be
/// ambiguous under CUDA_VISIBLE_DEVICES. The Error is one line that says what is missing.
Result<std::unique_ptr<GpuSource>> open_nvml(const std::string& identity, const std::string& library = nvml_library);

}  // namespace babelring
