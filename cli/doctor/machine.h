#pragma once

#include "cli/doctor/finding.h"

namespace babelring {

/// The processor's model and what its features mean for the kernels, how many processors and how much memory this
/// process may use (its control group and those above it limit both), and what else runs. `kernels`: what the CPU
/// backend says of itself. `processors`: those that this process may run on.
Diagnoses machine_findings(const KernelFiles& files, const std::string& kernels, int processors);

}  // namespace babelring
