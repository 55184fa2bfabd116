#include "cli/doctor/gpu.h"

#include <fmt/format.h>

#include "base/failure.h"
#include "nmt/comm/nccl/functions.h"
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

}  // namespace babelring
