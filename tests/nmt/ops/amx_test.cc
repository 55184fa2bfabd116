#if defined(__x86_64__)
#define BABELRING_KERNEL_SET avx512_bf16
#include "nmt/ops/cpu/kernels/avx512_bf16/amx.h"

#include <gtest/gtest.h>

#include <vector>

#include "nmt/core/tensor.h"
#include "nmt/ops/cpu/kernel_sets.h"

namespace babelring::cpu::avx512_bf16 {
namespace {

TEST(Amx, TilesMultiplyPairsOfBFloat16) {
  if (kernel_set() != KernelSet::amx) GTEST_SKIP() << "no AMX on this machine, or BABELRING_CPU_ISA forbids it";
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

}  // namespace
}  // namespace babelring::cpu::avx512_bf16
#endif
