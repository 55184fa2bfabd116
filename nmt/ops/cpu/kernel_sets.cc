#include "nmt/ops/cpu/kernel_sets.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <iterator>
#include <string>

#include "base/failure.h"
#include "nmt/ops/cpu/kernels.h"

namespace babelring::cpu {

// Each is defined by kernels/kernels.cc, compiled for the instruction set.
namespace generic {
extern const Kernels kernels;
}
#if defined(__x86_64__)
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace avx512_bf16 {
extern const Kernels kernels;
}
#endif

namespace {

constexpr InstructionSets tile_extensions = bit_of(InstructionSet::amx_tile) | bit_of(InstructionSet::amx_bf16);

struct Candidate {
  std::string_view name;
  const Kernels& kernels;
  InstructionSets beyond = 0;  // extensions that are used without being compiled for

  InstructionSets needed() const { return kernels.compiled_for | beyond; }
};

/// In the order of KernelSet.
const Candidate candidates[] = {
    {"generic", generic::kernels},
#if defined(__x86_64__)
    {"avx2", avx2::kernels},
    {"avx512", avx512::kernels},
    {"avx512_vnni", avx512::kernels, bit_of(InstructionSet::avx512_vnni)},
    {"avx512_bf16", avx512_bf16::kernels},
    {"amx", avx512_bf16::kernels, tile_extensions},
#endif
};

/// Linux keeps the tiles' 8 KiB out of a process's state until it asks (Documentation/x86/xstate.rst).
bool request_tiles() {
#if defined(__x86_64__)
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
  return false;
#endif
}

/// "generic, avx2 or avx512": the candidates that need no more than `usable`.
std::string names_of_candidates(InstructionSets usable) {
  std::string names;
  std::string_view last;
  for (const Candidate& candidate : candidates) {
    if ((candidate.needed() & ~usable) != 0) continue;
    if (!last.empty()) names += fmt::format("{}{}", names.empty() ? "" : ", ", last);
    last = candidate.name;
  }
  return names.empty() ? std::string(last) : fmt::format("{} or {}", names, last);
}

}  // namespace

std::string_view name_of(KernelSet set) {
  return candidates[static_cast<std::size_t>(set)].name;
}

const Kernels& kernels_of(KernelSet set) {
  return candidates[static_cast<std::size_t>(set)].kernels;
}

KernelSet choose_kernel_set(InstructionSets usable, std::string_view requested) {
  char names[512];
  const auto missing = [usable](const Candidate& candidate) { return candidate.needed() & ~usable; };
  if (const InstructionSets none = missing(candidates[0]); none != 0) {
    fail("this processor lacks {}, which all kernels need", write_names(none, names, sizeof names));
  }
  auto best = KernelSet::generic;
  for (std::size_t i = 0; i < std::size(candidates); ++i) {
    const auto set = static_cast<KernelSet>(i);
    if (missing(candidates[i]) == 0) best = set;
    if (requested != candidates[i].name) continue;
    if (best == set) return set;
    throw UsageFailure(fmt::format("BABELRING_CPU_ISA is {}, but this processor lacks {}; {} is needed", requested,
                                   write_names(missing(candidates[i]), names, sizeof names),
                                   names_of_candidates(usable)));
  }
  if (requested.empty()) return best;
  throw UsageFailure(
      fmt::format("BABELRING_CPU_ISA is {}, {} is needed", requested, names_of_candidates(~InstructionSets{0})));
}

KernelSet kernel_set() {
  static const KernelSet chosen = [] {
    InstructionSets usable = usable_instruction_sets();
    if ((tile_extensions & ~usable) == 0 && !request_tiles()) usable &= ~tile_extensions;
    const char* requested = std::getenv("BABELRING_CPU_ISA");
    return choose_kernel_set(usable, requested == nullptr ? "" : requested);
  }();
  return chosen;
}

}  // namespace babelring::cpu
