#pragma once

#include <string>

namespace babelring {

/// The CPU backend's kernels on this CPU: "bf16 in AMX tiles, oneDNN 2.6.3 avx512_core_amx".
std::string cpu_kernels();

}  // namespace babelring
