#pragma once

#include <string>

namespace babelring {

/// The CPU backend's kernels on this CPU: "amx kernels, oneDNN 2.6.3, avx512_core_amx". Throws UsageFailure if
/// BABELRING_CPU_ISA names an instruction set that is not available.
std::string cpu_kernels();

}  // namespace babelring
