#pragma once

#include <cstddef>
#include <cstdint>

namespace babelring {

/// Extensions of x86-64 that a compiler uses by itself where -march allows them. Their order is that of bits in
/// InstructionSets.
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
  count
};

/// Bit i stands for extension i.
using InstructionSets = std::uint64_t;

constexpr InstructionSets bit_of(InstructionSet extension) {
  return InstructionSets{1} << static_cast<int>(extension);
}

/// What a processor answers to cpuid, and its system to xgetbv: registers by leaf. 0 where there is no such leaf.
struct CpuidAnswers {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, leaf7_ecx = 0, leaf7_edx = 0, leaf7_1_eax = 0, extended1_ecx = 0;
  std::uint64_t xcr0 = 0;  // register state that the system saves
};

/// The extensions that can be used: the processor has them, and the system saves their registers.
InstructionSets usable_instruction_sets(const CpuidAnswers& answers);

/// Of this machine. On other architectures than x86-64 all count as usable.
InstructionSets usable_instruction_sets();

/// Writes their names, as Linux spells them, separated by spaces and cut to `size` bytes with the final zero. Returns
/// `text`.
const char* write_names(InstructionSets extensions, char* text, std::size_t size);

/// Ends the process with exit code 1 and one line on standard error, which names the extensions and the host, if this
/// machine cannot use all of `needed`. Meant to run before anything else of a program, so it uses nothing but libc.
void require_instruction_sets(InstructionSets needed, const char* program);

}  // namespace babelring
