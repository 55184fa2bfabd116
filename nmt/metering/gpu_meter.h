#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/records.h"
#include "nmt/metering/nvml.h"

namespace babelring {

/// Reads a GPU's figures on a thread of its own, because some take milliseconds, and puts the newest into step records.
class GpuMeter {
 public:
  /// Takes the first reading before it returns. When the GPU is lost, a line in the log says so and there are no more
  /// readings.
  explicit GpuMeter(std::unique_ptr<GpuSource> source,
                    std::chrono::milliseconds period = std::chrono::milliseconds(200));
  ~GpuMeter();

  /// Fills power, record.gpu and the peak of memory; counters by what they grew since the last call.
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

/// Null without a GPU (an empty identity), and where NVML cannot be used, which a line in the log says.
std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& identity, const std::string& library = nvml_library);

}  // namespace babelring
