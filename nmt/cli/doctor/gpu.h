#pragma once

#include "nmt/cli/doctor/finding.h"

namespace babelring {

/// A library, or what it says when it is opened: "9.19.0", or why not.
struct LibraryReport {
  std::string version;  // empty: it cannot be used
  std::string why;      // then, why
};

/// What the programs here find of GPUs and of NVIDIA's libraries.
struct GpuReport {
  int cards = 0;                     // NVIDIA's in the machine, whether they can be used or not
  std::string driver;                // the kernel's line; empty: none is loaded
  std::vector<std::string> devices;  // as the GPU backend describes them
  std::string why;                   // there are none
  LibraryReport nccl, cudnn;
};

/// Opens the GPU module, if there is a driver, and each device; the libraries by their names.
GpuReport report_gpus(const KernelFiles& files);

Diagnoses gpu_findings(const GpuReport& report);

}  // namespace babelring
