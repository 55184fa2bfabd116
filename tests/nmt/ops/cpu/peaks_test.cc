#include "nmt/ops/cpu/peaks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nmt/ops/backend.h"
#include "tests/reference/closed_backend.h"

namespace babelring {
namespace {

void expect_rates(const PeakRates& rates) {
  EXPECT_GT(rates.flops, 0);
  EXPECT_GT(rates.bytes_per_second, 0);
  EXPECT_TRUE(std::isfinite(rates.flops) && std::isfinite(rates.bytes_per_second));
}

TEST(PeakRatesTest, AProcessorIsMeasuredByItsInstructions) {
  const auto backend = make_cpu_backend(1);
  for (const DType type : {DType::f32, DType::bf16}) expect_rates(measure_peak_rates(*backend, type, 2, 0.001));
}

TEST(PeakRatesTest, ADeviceIsMeasuredThroughItsOps) {
  const auto device = make_closed_backend();
  for (const DType type : {DType::f32, DType::bf16}) {
    expect_rates(measure_peak_rates(*device, type, 1, 0.001, {.matmul_edge = 32, .elements = 5000}));
  }
  EXPECT_EQ(device->ledger().live().total(), 0) << "all memory is released";
}

}  // namespace

}  // namespace babelring
