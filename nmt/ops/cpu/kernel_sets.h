#pragma once

#include <string_view>

#include "base/instruction_sets.h"

namespace babelring::cpu {

struct Kernels;

/// The instruction sets that kernels are compiled for (cmake/Kernels.cmake); each includes those before it.
/// `avx512_vnni` runs the kernels of avx512 and allows them to multiply bytes, `amx` those of avx512_bf16 and allows
/// them to use the matrix tiles. Processors other than x86-64 have only `generic`.
enum class KernelSet { generic, avx2, avx512, avx512_vnni, avx512_bf16, amx };

/// The name in BABELRING_CPU_ISA, descriptions and the build: "avx512_bf16".
std::string_view name_of(KernelSet set);

/// The kernels that were compiled for `set`.
const Kernels& kernels_of(KernelSet set);

/// The instruction set of this process's kernels: that of BABELRING_CPU_ISA, otherwise the best that the processor and
/// Linux support. Chosen at the first call. Throws UsageFailure if BABELRING_CPU_ISA is unknown or not available here,
/// and Failure if the processor is too old for `generic`.
KernelSet kernel_set();

/// Chooses the instruction set for a processor with the extensions `usable`. `requested` is the value of
/// BABELRING_CPU_ISA, or empty. Throws like kernel_set().
KernelSet choose_kernel_set(InstructionSets usable, std::string_view requested);

}  // namespace babelring::cpu
