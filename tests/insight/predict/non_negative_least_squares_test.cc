#include "insight/predict/non_negative_least_squares.h"

#include <gmock/gmock.h>

#include <random>

#include "base/failure.h"

namespace babelring::insight {
namespace {

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

}  // namespace
}  // namespace babelring::insight
