#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "nmt/base/records.h"
#include "nmt/train/nvml.h"

namespace babelring {

/// Reads a GPU in a thread of its own, for some of its answers take milliseconds, and tells step records the newest.
class GpuMeter {
 public:
  /// The first reading is here when the constructor returns. When the GPU is lost a line in the log says so, and what
  /// it told is measured no more.
  explicit GpuMeter(std::unique_ptr<GpuSource> source,
                    std::chrono::milliseconds period = std::chrono::milliseconds(200));
  ~GpuMeter();

  /// Power, record.gpu and the peak of memory; of counters what was counted since the last call, up to the newest
  /// reading.
  void fill(StepRecord& record);

  /// The newest reading; without any figure when the GPU is lost. For any thread.
  GpuReading newest() const;

 private:
  bool read_once();
  void read_on(const std::stop_token& stop);

  std::unique_ptr<GpuSource> source_;
  std::chrono::milliseconds period_;
  mutable std::mutex mutex_;
  std::condition_variable_any stopped_;
  GpuReading newest_;
  std::map<std::string, std::int64_t> told_;  // counters as they were at the last fill()
  std::int64_t peak_bytes_ = 0;
  std::jthread thread_;
};

/// Of the GPU with that identity; null where there is none ("") or NVML cannot be used, which a line in the log says.
std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& identity, const std::string& library = nvml_library);

}  // namespace babelring
