#include "nmt/ops/cpu/amx.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/failure.h"
#include "nmt/core/dtype.h"

namespace babelring::cpu {
namespace {

TEST(Amx, TilesMultiplyPairsOfBFloat16) {
  if (!amx_available()) GTEST_SKIP() << "no AMX on this machine, or BABELRING_CPU_ISA forbids it";
  std::vector<BFloat16> a(16 * 32), b(16 * 32);
  std::vector<float> c(16 * 20, -1);
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 32; ++k) a[i * 32 + k] = BFloat16(static_cast<float>(i - k));
  }
  for (int k = 0; k < 32; ++k) {
    for (int n = 0; n < 16; ++n) b[k / 2 * 32 + 2 * n + k % 2] = BFloat16(static_cast<float>(k * n % 11));
  }
  {
    const TileConfiguration tiles;
    tile_zero<0>();
    tile_load<1>(a.data(), 64);
    tile_stream<2>(b.data(), 64);
    tile_multiply<0, 1, 2>();
    tile_store<0>(c.data(), 20 * sizeof(float));
  }
  for (int i = 0; i < 16; ++i) {
    for (int n = 0; n < 16; ++n) {
      int sum = 0;
      for (int k = 0; k < 32; ++k) sum += (i - k) * (k * n % 11);
      EXPECT_EQ(c[i * 20 + n], static_cast<float>(sum));
    }
    for (int n = 16; n < 20; ++n) EXPECT_EQ(c[i * 20 + n], -1);
  }
}

TEST(Amx, EnvironmentLowersTheInstructionSet) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";  // a fresh process, where nothing has asked yet
  EXPECT_EXIT(
      {
        setenv("BABELRING_CPU_ISA", "avx512", 1);
        std::exit(instruction_set() <= InstructionSet::avx512 && !amx_available() ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("BABELRING_CPU_ISA", "avx2", 1);
        std::exit(instruction_set() == InstructionSet::basic ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        setenv("BABELRING_CPU_ISA", "sse", 1);
        try {
          instruction_set();
        } catch (const Failure& failure) {
          std::fputs(failure.what(), stderr);
          std::exit(2);
        }
      },
      testing::ExitedWithCode(2), "BABELRING_CPU_ISA is sse, avx2, avx512 or amx is needed");
}

}  // namespace
}  // namespace babelring::cpu
