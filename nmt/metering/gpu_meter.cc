#include "nmt/metering/gpu_meter.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "nmt/metering/host_meter.h"

namespace babelring {
namespace {

// CUDA 13's packages do not include NVML's header. The parts of its stable ABI that are used here are declared below.
// Source: https://docs.nvidia.com/deploy/nvml-api
using NvmlStatus = int;
using NvmlDevice = struct NvmlDeviceHandle*;
constexpr NvmlStatus nvml_success = 0, nvml_lost = 15;
constexpr unsigned clock_sm = 1, clock_memory = 2;

struct NvmlUtilization {
  unsigned gpu, memory;  // percent
};
struct NvmlMemory {
  unsigned long long total, free, used;  // bytes
};
struct NvmlProcess {
  unsigned pid;
  unsigned long long used;  // bytes; all bits set if unknown
  unsigned gpu_instance, compute_instance;
};
static_assert(sizeof(NvmlProcess) == 24);
union NvmlNumber {
  double real;
  unsigned word;
  unsigned long long_word;
  unsigned long long wide;
};
struct NvmlField {
  unsigned id, scope;
  long long timestamp, latency_us;
  int type;
  NvmlStatus status;
  NvmlNumber value;
};
static_assert(sizeof(NvmlField) == 40);

constexpr int word_type = 1, long_type = 2, wide_type = 3, signed_wide_type = 4;
constexpr unsigned all_links = ~0U;

/// A byte counter: NVML field id, scope and unit.
struct Counter {
  const char* name;
  unsigned id, scope;
  std::int64_t unit_bytes;
};
constexpr std::array<Counter, 4> link_counters = {{{"nvlink_tx_bytes", 138, all_links, 1024},
                                                   {"nvlink_rx_bytes", 139, all_links, 1024},
                                                   {"pcie_tx_bytes", 197, 0, 1},
                                                   {"pcie_rx_bytes", 198, 0, 1}}};

/// The library functions in use; null if the library lacks one.
struct NvmlFunctions {
  NvmlStatus (*init)() = nullptr;
  NvmlStatus (*shutdown)() = nullptr;
  const char* (*error_text)(NvmlStatus) = nullptr;
  NvmlStatus (*by_uuid)(const char*, NvmlDevice*) = nullptr;
  NvmlStatus (*power)(NvmlDevice, unsigned* milliwatts) = nullptr;
  NvmlStatus (*power_limit)(NvmlDevice, unsigned* milliwatts) = nullptr;
  NvmlStatus (*utilization)(NvmlDevice, NvmlUtilization*) = nullptr;
  NvmlStatus (*memory)(NvmlDevice, NvmlMemory*) = nullptr;
  NvmlStatus (*processes)(NvmlDevice, unsigned* count, NvmlProcess*) = nullptr;
  NvmlStatus (*clock)(NvmlDevice, unsigned type, unsigned* mhz) = nullptr;
  NvmlStatus (*fields)(NvmlDevice, int count, NvmlField*) = nullptr;
};

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};
using NvmlLibrary = std::unique_ptr<void, CloseLibrary>;

template <class Function>
void find_function(const NvmlLibrary& library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library.get(), name));
}

NvmlFunctions functions_of(const NvmlLibrary& library) {
  NvmlFunctions found;
  find_function(library, "nvmlInit_v2", found.init);
  find_function(library, "nvmlShutdown", found.shutdown);
  find_function(library, "nvmlErrorString", found.error_text);
  find_function(library, "nvmlDeviceGetHandleByUUID", found.by_uuid);
  find_function(library, "nvmlDeviceGetPowerUsage", found.power);
  find_function(library, "nvmlDeviceGetEnforcedPowerLimit", found.power_limit);
  find_function(library, "nvmlDeviceGetUtilizationRates", found.utilization);
  find_function(library, "nvmlDeviceGetMemoryInfo", found.memory);
  find_function(library, "nvmlDeviceGetComputeRunningProcesses_v3", found.processes);
  find_function(library, "nvmlDeviceGetClockInfo", found.clock);
  find_function(library, "nvmlDeviceGetFieldValues", found.fields);
  return found;
}

/// Formats a UUID like NVML: 8-4-4-4-12 digits.
std::string uuid_of(const std::string& identity) {
  std::string uuid;
  for (std::size_t i = 0; i < identity.size(); ++i) {
    if (i == 8 || i == 12 || i == 16 || i == 20) uuid += '-';
    uuid += identity[i];
  }
  return uuid;
}

class NvmlSource final : public GpuSource {
 public:
  /// `functions` belong to `library`, which is initialized.
  NvmlSource(NvmlLibrary library, const NvmlFunctions& functions, NvmlDevice device)
      : library_(std::move(library)), nvml_(functions), device_(device) {}
  ~NvmlSource() override {
    if (nvml_.shutdown != nullptr) nvml_.shutdown();
  }

  Result<GpuReading> read() override {
    GpuReading reading;
    unsigned number = 0;
    NvmlUtilization utilization{};
    NvmlMemory memory{};
    if (query(nvml_.power, &number)) reading.power_w = number / 1000.0;
    if (query(nvml_.power_limit, &number)) reading.power_limit_w = number / 1000.0;
    if (query(nvml_.utilization, &utilization)) reading.values["utilization_percent"] = utilization.gpu;
    if (query(nvml_.memory, &memory)) reading.values["memory_used_bytes"] = static_cast<std::int64_t>(memory.used);
    if (query(nvml_.clock, clock_sm, &number)) reading.values["clock_mhz"] = number;
    if (query(nvml_.clock, clock_memory, &number)) reading.values["memory_clock_mhz"] = number;
    reading.process_bytes = read_process();
    read_counters(reading);
    if (lost_) return Error{"the GPU is lost: it no longer answers NVML"};
    return reading;
  }

 private:
  /// Calls a library function. Returns true if it exists and succeeds. Sets lost_ if the GPU is lost.
  template <class Function, class... Arguments>
  bool query(Function function, Arguments... arguments) {
    if (function == nullptr || lost_) return false;
    const NvmlStatus status = function(device_, arguments...);
    lost_ = status == nvml_lost;
    return status == nvml_success;
  }

  /// Memory of this process; 0 if the driver does not list it, as in containers that see other process numbers.
  std::int64_t read_process() {
    std::array<NvmlProcess, 64> processes{};
    unsigned count = processes.size();
    if (!query(nvml_.processes, &count, processes.data())) return 0;
    const auto listed = std::span(processes).first(std::min<std::size_t>(count, processes.size()));
    const auto own = std::ranges::find(listed, static_cast<unsigned>(::getpid()), &NvmlProcess::pid);
    if (own == listed.end() || own->used == ~0ULL) return 0;
    return static_cast<std::int64_t>(own->used);
  }

  void read_counters(GpuReading& reading) {
    std::array<NvmlField, link_counters.size()> fields{};
    for (std::size_t i = 0; i < link_counters.size(); ++i)
      fields[i] = {.id = link_counters[i].id, .scope = link_counters[i].scope};
    if (!query(nvml_.fields, static_cast<int>(fields.size()), fields.data())) return;
    for (std::size_t i = 0; i < link_counters.size(); ++i) {
      const NvmlField& field = fields[i];
      if (field.status != nvml_success || field.type < word_type || field.type > signed_wide_type) continue;
      const unsigned long long units = field.type == word_type   ? field.value.word
                                       : field.type == long_type ? field.value.long_word
                                                                 : field.value.wide;
      reading.counters[link_counters[i].name] = static_cast<std::int64_t>(units) * link_counters[i].unit_bytes;
    }
  }

  NvmlLibrary library_;
  NvmlFunctions nvml_;
  NvmlDevice device_;
  bool lost_ = false;
};

}  // namespace

Result<std::unique_ptr<GpuSource>> open_nvml(const std::string& identity, const std::string& library) {
  NvmlLibrary opened(::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
  if (opened == nullptr) {
    const char* error = ::dlerror();
    return Error{error != nullptr ? error : library + " cannot be opened"};
  }
  const NvmlFunctions nvml = functions_of(opened);
  if (nvml.init == nullptr || nvml.by_uuid == nullptr) {
    return Error{
        fmt::format("{} has no {}", library, nvml.init == nullptr ? "nvmlInit_v2" : "nvmlDeviceGetHandleByUUID")};
  }
  const auto text_of = [&nvml](NvmlStatus status) {
    return nvml.error_text != nullptr ? std::string(nvml.error_text(status)) : fmt::format("error {}", status);
  };
  if (const NvmlStatus status = nvml.init(); status != nvml_success) {
    return Error{fmt::format("nvmlInit: {}", text_of(status))};
  }
  NvmlDevice device = nullptr;
  NvmlStatus status = nvml_success;
  for (const char* kind : {"GPU-", "MIG-"}) {  // a MIG instance has its own UUID
    status = nvml.by_uuid((kind + uuid_of(identity)).c_str(), &device);
    if (status == nvml_success) {
      return std::unique_ptr<GpuSource>(std::make_unique<NvmlSource>(std::move(opened), nvml, device));
    }
  }
  const std::string why = fmt::format("NVML does not know GPU-{}: {}", uuid_of(identity), text_of(status));
  if (nvml.shutdown != nullptr) nvml.shutdown();
  return Error{why};
}

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
