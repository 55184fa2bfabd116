#pragma once

#include "base/records/library_versions.h"
#include "cli/doctor/finding.h"

namespace babelring {

/// Checks the processor model and its instruction sets, the processors and memory available to this process within its
/// control groups, and the load of the machine. `kernels`: description of the CPU backend. `processors`: number of
/// processors in this process's affinity mask.
Diagnoses machine_findings(const KernelFiles& files, const std::string& kernels, int processors);

/// Names the versions of the libraries that can change results.
Diagnosis libraries_finding(const LibraryVersions& libraries);

}  // namespace babelring
