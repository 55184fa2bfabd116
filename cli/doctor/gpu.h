#pragma once

#include "cli/doctor/finding.h"

namespace babelring {

/// A library that was opened, or why it cannot be.
struct LibraryReport {
  std::string version;  // "9.19.0"; empty: it cannot be used
  std::string why;      // why not
};

/// The GPUs and NVIDIA's libraries as our programs find them.
struct GpuReport {
  int cards = 0;                     // NVIDIA's in the machine, whether they can be used or not
  std::string driver;                // the kernel's line; empty: none is loaded
  std::vector<std::string> devices;  // as the GPU backend describes them
  std::string why;                   // why there are none
  LibraryReport nccl, cudnn;
};

/// Opens the GPU module, if there is a driver, and each device; the libraries by their names.
GpuReport report_gpus(const KernelFiles& files);

Diagnoses gpu_findings(const GpuReport& report);

}  // namespace babelring
