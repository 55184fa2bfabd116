#include "nmt/metrics/meter.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

TEST(RateMeterTest, ForgetsWhatIsOutsideItsWindow) {
  RateMeter meter(2);
  EXPECT_EQ(meter.per_second(), 0);
  EXPECT_EQ(meter.seconds_for(10), 0);
  meter.add(1'000'000, 1);
  meter.add(100, 500);
  meter.add(300, 1500);
  EXPECT_NEAR(meter.per_second(), 200, 1e-9);
  EXPECT_NEAR(meter.seconds_for(10), 10, 1e-9);
}

TEST(MeanMeterTest, WeighsSumsByTheirCounts) {
  MeanMeter meter;
  EXPECT_EQ(meter.mean(), 0);
  meter.add(10, 4);
  meter.add(2, 2);
  EXPECT_DOUBLE_EQ(meter.mean(), 2);
  meter.reset();
  EXPECT_EQ(meter.weight(), 0);
}

}  // namespace
}  // namespace babelring
