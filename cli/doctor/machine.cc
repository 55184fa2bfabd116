#include "cli/doctor/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "base/failure.h"
#include "base/result.h"
#include "nmt/comm/nccl/functions.h"
#include "nmt/core/machine.h"
#include "nmt/ops/backend.h"
#include "nmt/ops/cuda_module.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

/// The number of NVIDIA display controllers and accelerators (PCI class 03).
int count_nvidia_cards(const KernelFiles& files) {
  int cards = 0;
  std::error_code error;
  for (const auto& device : fs::directory_iterator(files.sys / "bus/pci/devices", error)) {
    if (first_line(device.path() / "vendor") == "0x10de" && first_line(device.path() / "class").starts_with("0x03")) {
      ++cards;
    }
  }
  return cards;
}

Diagnosis device_finding(const GpuReport& report) {
  Diagnosis finding{.area = "gpu", .text = fmt::format("no GPU is used: {}", report.devices.error())};
  if (report.cards == 0) return finding;
  finding.severity = Severity::fail;
  finding.text = fmt::format("{} NVIDIA GPUs in the machine, none usable: {}", report.cards, report.devices.error());
  finding.advice = report.driver.empty() ? "install the NVIDIA driver until nvidia-smi works"
                                         : "see docs/gpu.md; in a container, make the GPUs available to it";
  return finding;
}

Diagnosis nccl_finding(const GpuReport& report) {
  if (report.nccl) return {.area = "gpu", .text = fmt::format("NCCL {}", *report.nccl)};
  Diagnosis finding{.area = "gpu", .text = fmt::format("no NCCL: {}", report.nccl.error())};
  if (!report.devices) return finding;
  finding.severity = Severity::warn;
  finding.advice =
      "gradients of several ranks are copied through host memory, which is slow; install it, or add its folder to "
      "LD_LIBRARY_PATH";
  return finding;
}

/// Opens each device and describes those that can be used. The Error says why there are none.
Result<std::vector<std::string>> describe_devices() {
  const Result<CudaDevices>& cuda = find_cuda();
  if (!cuda) return Error{cuda.error()};
  std::vector<std::string> descriptions;
  Error last;
  for (int device = 0; device < cuda->count; ++device) {
    try {
      descriptions.push_back(make_cuda_backend(device)->description());
    } catch (const Failure& failure) {
      last = Error{failure.what()};
    }
  }
  if (descriptions.empty()) return last;
  return descriptions;
}

}  // namespace

GpuReport report_gpus(const KernelFiles& files) {
  GpuReport report;
  report.cards = count_nvidia_cards(files);
  report.driver = first_line(files.proc / "driver/nvidia/version");
  report.devices = describe_devices();
  const Result<NcclLibrary>& nccl = find_nccl();
  report.nccl = nccl ? Result<std::string>(nccl->version_text()) : Error{nccl.error()};
  return report;
}

Diagnoses gpu_findings(const GpuReport& report) {
  Diagnoses findings;
  if (!report.driver.empty()) findings.push_back({.area = "gpu", .text = report.driver});
  if (report.devices) {
    for (const std::string& device : *report.devices) findings.push_back({.area = "gpu", .text = device});
  } else {
    findings.push_back(device_finding(report));
  }
  findings.push_back(nccl_finding(report));
  return findings;
}

namespace {

namespace fs = std::filesystem;

struct ProcessorInfo {
  std::string model, flags;
  int count = 0;
};

ProcessorInfo read_processor_info(const KernelFiles& files) {
  ProcessorInfo info;
  std::ifstream stream(files.proc / "cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string value = line.substr(std::min(line.size(), colon + 2));
    if (line.starts_with("processor")) ++info.count;
    if (line.starts_with("model name")) info.model = value;
    if (line.starts_with("flags")) info.flags = " " + value + " ";
  }
  return info;
}

Diagnosis feature_finding(const ProcessorInfo& info, const std::string& kernels) {
  const auto has = [&](const char* flag) { return info.flags.find(fmt::format(" {} ", flag)) != std::string::npos; };
  const std::string model = info.model.empty() ? "unknown processor" : info.model;
  Diagnosis finding{.area = "processor", .text = fmt::format("{}: {}", model, kernels)};
  if (has("amx_bf16") && has("amx_tile")) {
    if (kernels.find("amx kernels") != std::string::npos) return finding;
    finding.severity = Severity::warn;
    finding.advice =
        "the processor has AMX, but it is not enabled: check BABELRING_CPU_ISA, or use Linux 5.16 or newer";
    return finding;
  }
  if (has("avx512_bf16")) return finding;
  finding.severity = Severity::warn;
  finding.advice = "no AMX and no AVX-512 BF16: bf16 is slow or missing, use training.precision=f32";
  return finding;
}

Diagnosis count_finding(const KernelFiles& files, const ProcessorInfo& info, int processors) {
  const double quota = processor_quota(files.proc, files.sys / "fs/cgroup");
  Diagnosis finding{
      .area = "processor",
      .text = fmt::format("this process may use {} of {} processors", processors, std::max(info.count, processors))};
  if (quota > 0 && quota < processors) {
    finding.severity = Severity::warn;
    finding.text += fmt::format(", limited to the time of {:.1f} (cgroup quota)", quota);
    finding.advice =
        fmt::format("by default all ranks on this host have {} thread{} in total; more would not be faster",
                    std::max(1, static_cast<int>(quota)), quota < 2 ? "" : "s");
  }
  double load = 0;
  std::ifstream(files.proc / "loadavg") >> load;
  if (load > 0.5 * processors) {
    finding.severity = Severity::warn;
    finding.text += fmt::format("; load {:.1f}", load);
    if (finding.advice.empty()) finding.advice = "other programs are using the processors, which slows down training";
  }
  return finding;
}

Diagnosis memory_finding(const KernelFiles& files) {
  constexpr double gib = 1 << 30;
  const MemoryInfo room = host_memory_info(files.proc, files.sys / "fs/cgroup");
  if (room.total == 0) return {.area = "memory", .text = "unknown: the kernel does not report it", .advice = {}};
  const auto available = static_cast<double>(room.free);
  Diagnosis finding{.area = "memory",
                    .text = fmt::format("{:.1f} GiB usable by this process, {:.1f} GiB available",
                                        static_cast<double>(room.total) / gib, available / gib)};
  if (available < 4 * gib) {
    finding.severity = available < gib ? Severity::fail : Severity::warn;
    finding.advice =
        "a rank of transformer-base needs about 4 GiB: set data.micro_batch_tokens, or use a smaller preset";
  }
  return finding;
}

}  // namespace

Diagnosis libraries_finding(const LibraryVersions& libraries) {
  return {.area = "libraries", .text = text_of(libraries), .advice = {}};
}

Diagnoses machine_findings(const KernelFiles& files, const std::string& kernels, int processors) {
  const ProcessorInfo info = read_processor_info(files);
  return {feature_finding(info, kernels), count_finding(files, info, processors), memory_finding(files)};
}

}  // namespace babelring
