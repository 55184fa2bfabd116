#include "base/instruction_sets.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace babelring {
namespace {

std::string names_of(InstructionSets sets) {
  std::array<char, 512> text{};
  return write_names(sets, text.data(), text.size());
}

/// A processor with AVX2 and AVX-512, and a system that saves the registers of both.
CpuidAnswers server_processor() {
  CpuidAnswers answers;
  answers.leaf1_ecx = 1u << 28 | 1u << 12 | 1u << 27;  // avx, fma, osxsave
  answers.leaf7_ebx = 1u << 5 | 1u << 16 | 1u << 30;   // avx2, avx512f, avx512bw
  answers.leaf7_1_eax = 1u << 5;                       // avx512_bf16
  answers.xcr0 = 0xe7;
  return answers;
}

TEST(InstructionSets, NeedProcessorAndSystemSupport) {
  const CpuidAnswers answers = server_processor();
  EXPECT_EQ(names_of(usable_instruction_sets(answers)), "avx fma avx2 avx512f avx512bw avx512_bf16");
  EXPECT_EQ(usable_instruction_sets(CpuidAnswers{}), 0u);
}

TEST(InstructionSets, NeedTheirRegistersSaved) {
  CpuidAnswers answers = server_processor();
  answers.xcr0 = 0x07;
  EXPECT_EQ(names_of(usable_instruction_sets(answers)), "avx fma avx2");
  answers.xcr0 = 0x03;
  EXPECT_EQ(names_of(usable_instruction_sets(answers)), "");
}

TEST(InstructionSets, MissingOnesAreNamed) {
  CpuidAnswers older = server_processor();
  older.leaf7_ebx = 1u << 5;
  older.leaf7_1_eax = 0;
  const InstructionSets missing = usable_instruction_sets(server_processor()) & ~usable_instruction_sets(older);
  EXPECT_EQ(names_of(missing), "avx512f avx512bw avx512_bf16");
}

TEST(InstructionSets, NamesAreTruncatedToTheBuffer) {
  std::array<char, 6> text{};
  EXPECT_STREQ(write_names(~InstructionSets{0}, text.data(), text.size()), "sse3 ");
}

TEST(InstructionSets, MatchTheKernelOfThisMachine) {
  EXPECT_EQ(usable_instruction_sets(), usable_instruction_sets());
#if defined(__x86_64__)
  EXPECT_EQ((usable_instruction_sets() & bit_of(InstructionSet::sse3)) != 0, __builtin_cpu_supports("sse3") != 0);
  EXPECT_EQ((usable_instruction_sets() & bit_of(InstructionSet::avx2)) != 0, __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ((usable_instruction_sets() & bit_of(InstructionSet::avx512bw)) != 0,
            __builtin_cpu_supports("avx512bw") != 0);
#endif
}

TEST(InstructionSetsDeathTest, AProgramForAnotherProcessorEndsWithOneLine) {
  // No processor has both: AMD dropped XOP before its first with AVX-512.
  const InstructionSets needed = bit_of(InstructionSet::xop) | bit_of(InstructionSet::avx512_fp16);
  EXPECT_EXIT(
      require_instruction_sets(needed, "program"), testing::ExitedWithCode(1),
      "^program: error: the processor of .* lacks (xop|avx512_fp16|xop avx512_fp16), for which this program was "
      "compiled: [^\n]*\n$");
  require_instruction_sets(usable_instruction_sets(), "program");
}

}  // namespace
}  // namespace babelring
