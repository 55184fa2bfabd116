#include "nmt/ops/cpu/amx.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/failure.h"

namespace babelring::cpu {

namespace {

/// Linux keeps the tiles' 8 KiB out of a process's state until it asks (Documentation/x86/xstate.rst).
bool request_tiles() {
  constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

InstructionSet found_on_processor() {
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bf16");
  if (!avx512) return InstructionSet::basic;
  const bool tiles = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
  return tiles && request_tiles() ? InstructionSet::amx : InstructionSet::avx512;
}

InstructionSet largest_allowed() {
  const char* value = std::getenv("BABELRING_CPU_ISA");
  const std::string_view name = value == nullptr ? "amx" : value;
  if (name == "amx") return InstructionSet::amx;
  if (name == "avx512") return InstructionSet::avx512;
  if (name == "avx2") return InstructionSet::basic;
  fail("BABELRING_CPU_ISA is {}, avx2, avx512 or amx is needed", name);
}

/// The operand of ldtilecfg: palette 1, then each tile's bytes a row and rows.
struct TileShapes {
  std::uint8_t palette = 1, start_row = 0;
  std::array<std::uint8_t, 14> reserved{};
  std::array<std::uint16_t, 16> row_bytes{};
  std::array<std::uint8_t, 16> rows{};
};
static_assert(sizeof(TileShapes) == 64);

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet best = std::min(found_on_processor(), largest_allowed());
  return best;
}

TileConfiguration::TileConfiguration() {
  TileShapes shapes;
  std::fill_n(shapes.row_bytes.begin(), 8, std::uint16_t{64});
  std::fill_n(shapes.rows.begin(), 8, std::uint8_t{16});
  asm volatile("ldtilecfg %0" : : "m"(shapes));
}

TileConfiguration::~TileConfiguration() {
  asm volatile("tilerelease");
}

}  // namespace babelring::cpu
