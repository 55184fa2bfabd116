#include "base/instruction_sets.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace babelring {
namespace {

/// XCR0 bits of saved register state (Intel SDM volume 1, section 13.1): XMM and YMM; plus ZMM and masks; tiles.
constexpr std::uint64_t ymm_state = 0x06, zmm_state = 0xe6, tile_state = 0x60000;
constexpr std::uint32_t osxsave = 1u << 27;  // leaf 1 ecx: xgetbv is available

struct Extension {
  const char* name;
  std::uint32_t CpuidAnswers::* answer;
  int bit;
  std::uint64_t state;
};

/// extensions[i] describes the i-th bit of InstructionSet.
constexpr Extension extensions[] = {
    {"sse3", &CpuidAnswers::leaf1_ecx, 0, 0},
    {"ssse3", &CpuidAnswers::leaf1_ecx, 9, 0},
    {"sse4_1", &CpuidAnswers::leaf1_ecx, 19, 0},
    {"sse4_2", &CpuidAnswers::leaf1_ecx, 20, 0},
    {"popcnt", &CpuidAnswers::leaf1_ecx, 23, 0},
    {"movbe", &CpuidAnswers::leaf1_ecx, 22, 0},
    {"lzcnt", &CpuidAnswers::extended1_ecx, 5, 0},
    {"avx", &CpuidAnswers::leaf1_ecx, 28, ymm_state},
    {"f16c", &CpuidAnswers::leaf1_ecx, 29, ymm_state},
    {"fma", &CpuidAnswers::leaf1_ecx, 12, ymm_state},
    {"fma4", &CpuidAnswers::extended1_ecx, 16, ymm_state},
    {"xop", &CpuidAnswers::extended1_ecx, 11, ymm_state},
    {"tbm", &CpuidAnswers::extended1_ecx, 21, 0},
    {"bmi1", &CpuidAnswers::leaf7_ebx, 3, 0},
    {"bmi2", &CpuidAnswers::leaf7_ebx, 8, 0},
    {"avx2", &CpuidAnswers::leaf7_ebx, 5, ymm_state},
    {"avx_vnni", &CpuidAnswers::leaf7_1_eax, 4, ymm_state},
    {"avx512f", &CpuidAnswers::leaf7_ebx, 16, zmm_state},
    {"avx512cd", &CpuidAnswers::leaf7_ebx, 28, zmm_state},
    {"avx512dq", &CpuidAnswers::leaf7_ebx, 17, zmm_state},
    {"avx512bw", &CpuidAnswers::leaf7_ebx, 30, zmm_state},
    {"avx512vl", &CpuidAnswers::leaf7_ebx, 31, zmm_state},
    {"avx512ifma", &CpuidAnswers::leaf7_ebx, 21, zmm_state},
    {"avx512vbmi", &CpuidAnswers::leaf7_ecx, 1, zmm_state},
    {"avx512_vbmi2", &CpuidAnswers::leaf7_ecx, 6, zmm_state},
    {"avx512_vnni", &CpuidAnswers::leaf7_ecx, 11, zmm_state},
    {"avx512_bitalg", &CpuidAnswers::leaf7_ecx, 12, zmm_state},
    {"avx512_vpopcntdq", &CpuidAnswers::leaf7_ecx, 14, zmm_state},
    {"avx512_bf16", &CpuidAnswers::leaf7_1_eax, 5, zmm_state},
    {"avx512_fp16", &CpuidAnswers::leaf7_edx, 23, zmm_state},
    {"amx_tile", &CpuidAnswers::leaf7_edx, 24, tile_state},
    {"amx_bf16", &CpuidAnswers::leaf7_edx, 22, tile_state},
};
static_assert(sizeof extensions / sizeof extensions[0] == static_cast<std::size_t>(InstructionSet::count));

#if defined(__x86_64__)
CpuidAnswers ask_processor() {
  CpuidAnswers answers;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0) answers.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0) {
    answers.leaf7_ebx = ebx;
    answers.leaf7_ecx = ecx;
    answers.leaf7_edx = edx;
    if (eax >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0) answers.leaf7_1_eax = eax;
  }
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) != 0) answers.extended1_ecx = ecx;
  if ((answers.leaf1_ecx & osxsave) != 0) {
    std::uint32_t low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    answers.xcr0 = std::uint64_t{high} << 32 | low;
  }
  return answers;
}
#endif

}  // namespace

InstructionSets usable_instruction_sets(const CpuidAnswers& answers) {
  InstructionSets usable = 0;
  for (int i = 0; i < static_cast<int>(InstructionSet::count); ++i) {
    const Extension& extension = extensions[i];
    const bool in_processor = (answers.*extension.answer >> extension.bit & 1) != 0;
    if (in_processor && (answers.xcr0 & extension.state) == extension.state) usable |= InstructionSets{1} << i;
  }
  return usable;
}

InstructionSets usable_instruction_sets() {
#if defined(__x86_64__)
  return usable_instruction_sets(ask_processor());
#else
  return ~InstructionSets{0};
#endif
}

const char* write_names(InstructionSets sets, char* text, std::size_t size) {
  std::size_t used = 0;
  text[0] = '\0';
  for (int i = 0; i < static_cast<int>(InstructionSet::count); ++i) {
    if ((sets >> i & 1) == 0) continue;
    const int written = std::snprintf(text + used, size - used, "%s%s", used > 0 ? " " : "", extensions[i].name);
    if (written < 0 || static_cast<std::size_t>(written) >= size - used) break;
    used += static_cast<std::size_t>(written);
  }
  return text;
}

void require_instruction_sets(InstructionSets needed, const char* program) {
  const InstructionSets missing = needed & ~usable_instruction_sets();
  if (missing == 0) return;
  char host[256] = "this host", names[512], line[1024];
  if (gethostname(host, sizeof host - 1) != 0) std::strcpy(host, "this host");
  const int length =
      std::snprintf(line, sizeof line,
                    "%s: error: the processor of %s lacks %s, for which this program was compiled: build "
                    "it on the oldest of the hosts, or without -DBABELRING_NATIVE=ON\n",
                    program, host, write_names(missing, names, sizeof names));
  if (length > 0 && write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) _exit(1);
  _exit(1);
}

}  // namespace babelring
