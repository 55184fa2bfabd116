#include "insight/predict/quantiles.h"

#include <gtest/gtest.h>

namespace babelring::insight {
namespace {

TEST(QuantilesTest, InterpolatesBetweenRanks) {
  const Quantiles found = quantiles_of({4, 1, 3, 2});
  EXPECT_DOUBLE_EQ(found.mean, 2.5);
  EXPECT_DOUBLE_EQ(found.median, 2.5);
  EXPECT_DOUBLE_EQ(found.p95, 3.85);
  EXPECT_DOUBLE_EQ(quantiles_of({}).p99, 0);
  EXPECT_DOUBLE_EQ(quantiles_of({7}).p99, 7);
}

TEST(QuantilesTest, DrawsAreRepeatedAndEven) {
  EXPECT_EQ(draw_bits(1, 2, 3), draw_bits(1, 2, 3));
  EXPECT_NE(draw_bits(1, 2, 3), draw_bits(1, 3, 2));
  const Samples samples{{0, 1}};
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) sum += samples.draw(draw_bits(5, 0, i), -1);
  EXPECT_NEAR(sum / 10000, 0.5, 0.03);
  EXPECT_EQ(Samples().draw(1, 42), 42);
}

}  // namespace
}  // namespace babelring::insight
