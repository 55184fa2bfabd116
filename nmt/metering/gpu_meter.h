#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/records/records.h"
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

/// Polls a GPU's counters on its own thread, because some queries take milliseconds, and adds the newest reading to
/// step records. Thread-safe.
class GpuMeter {
 public:
  /// Takes the first reading before returning, then one every `period`. When the GPU is lost, logs a warning and stops.
  explicit GpuMeter(std::unique_ptr<GpuSource> source,
                    std::chrono::milliseconds period = std::chrono::milliseconds(200));
  ~GpuMeter();

  /// Sets power, record.gpu, peak memory and, if the driver tells it, the memory of this process. The ledger's purposes
  /// must already be set. Counters are reported as the increase since the last call.
  void fill(StepRecord& record);

  /// The newest reading; empty after the GPU was lost.
  GpuReading newest() const;

 private:
  bool read_once();
  void poll(const std::stop_token& stop);

  std::unique_ptr<GpuSource> source_;
  std::chrono::milliseconds period_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  GpuReading newest_;
  std::map<std::string, std::int64_t> reported_;  // counter values at the last fill()
  std::int64_t peak_bytes_ = 0;
  std::jthread thread_;
};

/// Null for an empty identity (no GPU). Logs a line and returns null if NVML is unavailable.
std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& identity, const std::string& library = nvml_library);

}  // namespace babelring
