#pragma once

#include "base/result.h"
#include "cli/doctor/finding.h"

namespace babelring {

/// The GPUs and NVIDIA libraries found by Babelring's programs.
struct GpuReport {
  int cards = 0;       // number of NVIDIA GPUs in the machine, usable or not
  std::string driver;  // version line of the kernel driver; empty: not loaded
  /// Descriptions of the devices that the GPU backend can use, at least one. The Error says why it can use none.
  Result<std::vector<std::string>> devices = Error{};
  /// NCCL's version ("2.28.9"). The Error says why it cannot be loaded.
  Result<std::string> nccl = Error{};
};

/// Probes the GPUs: loads the GPU module, if a driver is loaded, opens each device, and loads NCCL by name.
GpuReport report_gpus(const KernelFiles& files);

Diagnoses gpu_findings(const GpuReport& report);

}  // namespace babelring
