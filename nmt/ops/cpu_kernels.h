#pragma once

#include <string>

namespace babelring {

/// The CPU backend's kernels on this CPU: "amx kernels, oneDNN 2.6.3, avx512_core_amx". Throws UsageFailure if
/// BABELRING_CPU_ISA names an instruction set that is not available.
std::string cpu_kernels();

/// The same without the version of oneDNN: "amx kernels, oneDNN for avx512_core_amx".
std::string cpu_instruction_sets();

/// The version of oneDNN that this process runs with: "2.6.3".
std::string onednn_version();

}  // namespace babelring
