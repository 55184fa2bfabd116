#pragma once

#include "cli/doctor/finding.h"

namespace babelring {

/// The version of a shared library, or the reason why it cannot be loaded.
struct LibraryReport {
  std::string version;  // "9.19.0"; empty: not usable
  std::string why;      // the reason, if not usable
};

/// The GPUs and NVIDIA libraries found by Babelring's programs.
struct GpuReport {
  int cards = 0;                     // number of NVIDIA GPUs in the machine, usable or not
  std::string driver;                // version line of the kernel driver; empty: not loaded
  std::vector<std::string> devices;  // descriptions from the GPU backend
  std::string why;                   // the reason, if there are no devices
  LibraryReport nccl, cudnn;
};

/// Probes the GPUs: loads the GPU module, if a driver is loaded, opens each device, and loads the libraries by name.
GpuReport report_gpus(const KernelFiles& files);

Diagnoses gpu_findings(const GpuReport& report);

}  // namespace babelring
