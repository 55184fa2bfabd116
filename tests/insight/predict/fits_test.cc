#include "insight/predict/fits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

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

using testing::DoubleNear;
using testing::ElementsAre;

TEST(LeastSquaresTest, FindsNonNegativeCoefficients) {
  const std::vector<std::vector<double>> rows = {{1, 10, 3}, {1, 20, 1}, {1, 30, 7}, {1, 40, 2}};
  std::vector<double> targets;
  for (const auto& row : rows) targets.push_back(0.5 + 2 * row[1] + 3 * row[2]);
  EXPECT_THAT(non_negative_least_squares(rows, targets),
              ElementsAre(DoubleNear(0.5, 1e-9), DoubleNear(2, 1e-9), DoubleNear(3, 1e-9)));
}

TEST(LeastSquaresTest, SetsWhatWouldBeNegativeToZero) {
  const std::vector<std::vector<double>> rows = {{1, 1}, {1, 2}, {1, 3}};
  const std::vector<double> targets = {1, 3, 5};  // 2x - 1
  const auto x = non_negative_least_squares(rows, targets);
  EXPECT_EQ(x[0], 0);
  EXPECT_NEAR(x[1], 22.0 / 14, 1e-12);
}

TEST(LeastSquaresTest, SurvivesColumnsThatAreProportionalOrZero) {
  const std::vector<std::vector<double>> rows = {{1, 2, 0}, {2, 4, 0}};
  const std::vector<double> targets = {4, 8};
  const auto x = non_negative_least_squares(rows, targets);
  EXPECT_NEAR(x[0] + 2 * x[1], 4, 1e-9);
  EXPECT_EQ(x[2], 0);
}

TEST(LeastSquaresTest, NoOtherPointIsBetter) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int problem = 0; problem < 50; ++problem) {
    std::vector<std::vector<double>> rows(6, std::vector<double>(3));
    std::vector<double> targets(6);
    for (auto& row : rows) {
      for (double& each : row) each = uniform(random);
    }
    for (double& each : targets) each = uniform(random);
    const auto error = [&](const std::vector<double>& x) {
      double sum = 0;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        double difference = -targets[i];
        for (std::size_t j = 0; j < 3; ++j) difference += rows[i][j] * x[j];
        sum += difference * difference;
      }
      return sum;
    };
    const auto best = non_negative_least_squares(rows, targets);
    for (int trial = 0; trial < 200; ++trial) {
      std::vector<double> other = best;
      for (double& each : other) each = std::max(0.0, each + 0.1 * uniform(random));
      EXPECT_GE(error(other), error(best) - 1e-12);
    }
  }
}

TEST(LeastSquaresTest, RefusesSizesThatDoNotFit) {
  const std::vector<std::vector<double>> rows = {{1, 2}, {1}};
  EXPECT_THROW(non_negative_least_squares(rows, std::vector<double>{1, 2}), Failure);
  EXPECT_THROW(non_negative_least_squares(rows, std::vector<double>{1}), Failure);
  EXPECT_THROW(non_negative_least_squares({}, std::vector<double>{}), Failure);
}

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
