#pragma once

#include <string_view>

#include "base/instruction_sets.h"

namespace babelring::cpu {

struct Kernels;

/// The instruction sets that kernels are compiled for (cmake/Kernels.cmake), each with those before it. `amx` runs the
/// kernels of avx512_bf16 and lets them use the matrix tiles. Processors other than x86-64 have `generic` only.
enum class KernelSet { generic, avx2, avx512, avx512_bf16, amx };

/// "avx512_bf16": the name in BABELRING_CPU_ISA, descriptions and the build.
std::string_view name_of(KernelSet set);

const Kernels& kernels_of(KernelSet set);

/// The instruction set of this process's kernels: the one that BABELRING_CPU_ISA names, otherwise the best that the
/// processor and Linux offer. Chosen at the first call. Throws UsageFailure if BABELRING_CPU_ISA names none or one that
/// is not available here, Failure if the processor is too old for `generic`.
KernelSet kernel_set();

/// The same for a processor with the extensions `usable`; `requested` is empty if there is no request.
KernelSet choose_kernel_set(InstructionSets usable, std::string_view requested);

}  // namespace babelring::cpu
