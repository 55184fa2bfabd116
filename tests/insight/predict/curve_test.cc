#include "insight/predict/curve.h"

#include <gtest/gtest.h>

#include "base/failure.h"

namespace babelring::insight {
namespace {

TEST(CurveTest, InterpolatesAndContinuesTheOutermostSegments) {
  const Curve curve({{4, 8}, {1, 2}, {2, 4}});
  EXPECT_DOUBLE_EQ(curve.at(1), 2);
  EXPECT_DOUBLE_EQ(curve.at(3), 6);
  EXPECT_DOUBLE_EQ(curve.at(8), 16);
  EXPECT_DOUBLE_EQ(Curve({{1, 5}, {2, 9}}).at(0), 1);
  EXPECT_DOUBLE_EQ(Curve({{1, 1}, {2, 9}}).at(0), 0) << "never negative";
}

TEST(CurveTest, OnePointIsInProportionAndNoneIsZero) {
  EXPECT_DOUBLE_EQ(Curve({{64, 100}}).at(128), 200);
  EXPECT_DOUBLE_EQ(Curve().at(3), 0);
}

TEST(CurveTest, LeavesOneOut) {
  const auto errors = leave_one_out(Curve({{1, 1}, {2, 2}, {3, 4}}));
  ASSERT_EQ(errors.size(), 3);
  EXPECT_DOUBLE_EQ(errors[0], -1);           // through (2, 2) and (3, 4): 0
  EXPECT_DOUBLE_EQ(errors[1], 2.5 / 2 - 1);  // between 1 and 4
  EXPECT_DOUBLE_EQ(errors[2], 3.0 / 4 - 1);
  const ErrorSummary summary = summary_of(errors);
  EXPECT_DOUBLE_EQ(summary.mean, 0.5);
  EXPECT_DOUBLE_EQ(summary.largest, 1);
  EXPECT_EQ(summary.count, 3);
  EXPECT_TRUE(leave_one_out(Curve({{1, 1}, {2, 2}})).empty());
}

TEST(CurveTest, RefusesTwoValuesForOnePosition) {
  EXPECT_THROW(Curve({{1, 1}, {1, 2}}), UsageFailure);
  EXPECT_THROW(Curve({{1, -1}}), UsageFailure);
}

}  // namespace
}  // namespace babelring::insight
