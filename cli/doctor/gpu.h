#pragma once

#include "base/result.h"
#include "cli/doctor/finding.h"

namespace babelring {

/// The GPUs and NVIDIA libraries found by Babelring's programs.
struct GpuReport {
  int cards = 0;                     // number of NVIDIA GPUs in the machine, usable or not
  std::string driver;                // version line of the kernel driver; empty: not loaded
  std::vector<std::string> devices;  // descriptions from the GPU backend
  std::string why;                   // the reason, if there are no devices
  /// Versions of the libraries ("9.19.0"), or why they cannot be loaded.
  Result<std::string> nccl = Error{}, cudnn = Error{};
};

/// Probes the GPUs: loads the GPU module, if a driver is loaded, opens each device, and loads the libraries by name.
GpuReport report_gpus(const KernelFiles& files);

Diagnoses gpu_findings(const GpuReport& report);

}  // namespace babelring
