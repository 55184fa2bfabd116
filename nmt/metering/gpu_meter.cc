#include "nmt/metering/gpu_meter.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "nmt/metering/host_meter.h"

namespace babelring {

GpuMeter::GpuMeter(std::unique_ptr<GpuSource> source, std::chrono::milliseconds period)
    : source_(std::move(source)), period_(period) {
  if (!read_once()) return;
  reported_ = newest_.counters;
  thread_ = std::jthread([this](const std::stop_token& stop) { poll(stop); });
}

GpuMeter::~GpuMeter() = default;

/// Returns false if the GPU is lost.
bool GpuMeter::read_once() {
  Result<GpuReading> reading = source_->read();
  if (!reading) spdlog::warn("GPU power, clocks and traffic are no longer measured: {}", reading.error());
  const bool more = reading.ok();
  const std::lock_guard lock(mutex_);
  newest_ = more ? std::move(reading).value() : GpuReading{};
  return more;
}

void GpuMeter::poll(const std::stop_token& stop) {
  do {
    std::unique_lock lock(mutex_);
    stopped_.wait_for(lock, stop, period_, [&stop] { return stop.stop_requested(); });
  } while (!stop.stop_requested() && read_once());
}

void GpuMeter::fill(StepRecord& record) {
  const std::lock_guard lock(mutex_);
  record.power_w = newest_.power_w;
  record.power_limit_w = newest_.power_limit_w;
  record.gpu = newest_.values;
  if (const auto used = newest_.values.find("memory_used_bytes"); used != newest_.values.end()) {
    peak_bytes_ = std::max(peak_bytes_, used->second);
    record.memory_bytes["peak"] = peak_bytes_;
  }
  if (newest_.process_bytes > 0) set_process_memory(record.memory_bytes, newest_.process_bytes);
  for (const auto& [name, count] : newest_.counters) {
    const auto before = reported_.find(name);
    // A new counter, or one that was reset, has no valid difference until the next reading.
    record.gpu[name] = before != reported_.end() && count >= before->second ? count - before->second : 0;
  }
  reported_ = newest_.counters;
}

GpuReading GpuMeter::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

std::unique_ptr<GpuMeter> make_gpu_meter(const std::string& identity, const std::string& library) {
  if (identity.empty()) return nullptr;
  Result<std::unique_ptr<GpuSource>> source = open_nvml(identity, library);
  if (source.ok()) return std::make_unique<GpuMeter>(std::move(source).value());
  spdlog::info("GPU power, clocks and traffic are not measured: {}", source.error());
  return nullptr;
}

}  // namespace babelring
