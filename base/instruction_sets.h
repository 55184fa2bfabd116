#pragma once

#include <cstddef>
#include <cstdint>

namespace babelring {

/// x86-64 extensions that a compiler may use without intrinsics if -march allows them, and the matrix tiles. The
/// enumerator is the bit number in InstructionSets.
enum class InstructionSet {
  sse3,
  ssse3,
  sse4_1,
  sse4_2,
  popcnt,
  movbe,
  lzcnt,
  avx,
  f16c,
  fma,
  fma4,
  xop,
  tbm,
  bmi,
  bmi2,
  avx2,
  avx_vnni,
  avx512f,
  avx512cd,
  avx512dq,
  avx512bw,
  avx512vl,
  avx512_ifma,
  avx512_vbmi,
  avx512_vbmi2,
  avx512_vnni,
  avx512_bitalg,
  avx512_vpopcntdq,
  avx512_bf16,
  avx512_fp16,
  amx_tile,
  amx_bf16,
  count
};

/// A set of extensions: bit i is InstructionSet(i).
using InstructionSets = std::uint64_t;

constexpr InstructionSets bit_of(InstructionSet extension) {
  return InstructionSets{1} << static_cast<int>(extension);
}

/// Registers returned by cpuid, by leaf, and by xgetbv. 0 for a leaf that the processor lacks.
struct CpuidAnswers {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0, leaf7_1_eax = 0, extended1_ecx = 0;
  std::uint64_t xcr0 = 0;  // register state saved by the operating system
};

/// The usable extensions: supported by the processor, with registers saved by the operating system.
InstructionSets usable_instruction_sets(const CpuidAnswers& answers);

/// The usable extensions of this machine. On architectures other than x86-64, returns all.
InstructionSets usable_instruction_sets();

/// Writes the extensions' usual names (those of /proc/cpuinfo but for sse3 and lzcnt), separated by spaces, truncated
/// to `size` bytes including the terminating zero. Returns `text`.
const char* write_names(InstructionSets extensions, char* text, std::size_t size);

/// Exits with code 1 if this machine lacks an extension in `needed`, after it printed the missing extensions and the
/// host name to standard error. Runs before all constructors of a program, so it uses only libc.
void require_instruction_sets(InstructionSets needed, const char* program);

}  // namespace babelring
