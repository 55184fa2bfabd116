#include "insight/report/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace babelring::insight {
namespace {

TEST(Statistics, SlopeHasTheIntervalOfATextbook) {
  // Sxx = 10, Sxy = 19, residual 0.7, t(3) = 3.182.
  const std::vector<double> x = {1, 2, 3, 4, 5}, y = {2, 4, 6, 7, 10};
  const auto slope = slope_of(x, y);
  ASSERT_TRUE(slope);
  EXPECT_NEAR(slope->value, 1.9, 1e-12);
  EXPECT_NEAR(slope->high - slope->value, 3.182 * std::sqrt(0.7 / 3 / 10), 1e-9);
  EXPECT_FALSE(slope_of(std::vector<double>{1, 2}, std::vector<double>{1, 2}));
  EXPECT_FALSE(slope_of(std::vector<double>{1, 1, 1}, std::vector<double>{1, 2, 3}));
}

TEST(Statistics, FindsAPowerLawAndRefusesRisingValues) {
  std::vector<double> u, falling, rising;
  for (double update = 100; update <= 3200; update *= 2) {
    u.push_back(update);
    falling.push_back(1.2 + 9 * std::pow(update, -0.4));
    rising.push_back(update);
  }
  const auto law = fit_power_law(u, falling);
  ASSERT_TRUE(law);
  EXPECT_NEAR(law->c, 0.4, 0.01);
  EXPECT_NEAR(law->at(6400), 1.2 + 9 * std::pow(6400, -0.4), 0.002);
  EXPECT_FALSE(fit_power_law(u, rising));
}

TEST(Statistics, ThePowerLawHasNoNegativeLossAndIsNoEndOfTheGrid) {
  std::vector<double> u, straight, slow, steep;
  for (double update = 100; update <= 900; update += 100) {
    u.push_back(update);
    straight.push_back(4 - update / 250);
    slow.push_back(10 * std::pow(update, -0.01));
    steep.push_back(1 + 9 * std::pow(update / 100, -5));
  }
  const auto law = fit_power_law(u, straight);  // without the bound a would be -10
  ASSERT_TRUE(law);
  EXPECT_GE(law->a, 0);
  EXPECT_GT(law->at(1e9), 0);
  double best = 1e300;  // of laws without a
  for (double c = 0.06; c < 2.9; c *= 1.001) {
    double xy = 0, xx = 0, yy = 0;
    for (std::size_t i = 0; i < u.size(); ++i) {
      const double x = std::pow(u[i], -c);
      xy += x * straight[i], xx += x * x, yy += straight[i] * straight[i];
    }
    best = std::min(best, yy - xy * xy / xx);
  }
  double error = 0;
  for (std::size_t i = 0; i < u.size(); ++i) error += std::pow(straight[i] - law->at(u[i]), 2);
  EXPECT_NEAR(error, best, 1e-4 * best) << "the best law with a = 0";
  EXPECT_FALSE(fit_power_law(u, slow)) << "c would be 0.05";
  EXPECT_FALSE(fit_power_law(u, steep)) << "c would be 3";
}

/// No model falls below the entropy, which is known of generated sequences.
TEST(Statistics, ThePowerLawStaysAboveTheLeastLoss) {
  std::vector<double> u, y;
  for (double update = 100; update <= 900; update += 100) {
    u.push_back(update);
    y.push_back(2.4 - update / 2500);  // 2.04 at the end
  }
  const auto free = fit_power_law(u, y), bound = fit_power_law(u, y, 2);
  ASSERT_TRUE(free && bound);
  EXPECT_LT(free->a, 2);
  EXPECT_GE(bound->a, 2);
  EXPECT_GT(bound->at(1e9), 2 - 1e-12);
  const Estimate change = change_by_doubling(u, y, *bound, 2);
  EXPECT_NEAR(change.value, bound->at(1800) - bound->at(900), 1e-12);
  EXPECT_LE(change.low, change.value);
  EXPECT_GE(change.high, change.value);
  LossCurve curve{u, y, std::vector<double>(u.size(), 2.0)};
  EXPECT_EQ(curve.least(), 2);
  curve.entropy.back() = 2.1;
  EXPECT_EQ(curve.least(), y.back()) << "a sample's loss may lie below the entropy";
  curve.entropy.back() = NAN;
  EXPECT_EQ(curve.least(), 0);
}

TEST(Statistics, TheChangeByDoublingHasAnInterval) {
  const auto change = [](double noise) {
    std::vector<double> u, y;
    for (int i = 1; i <= 20; ++i) {
      u.push_back(500 * i);
      y.push_back(1.3 + 30 * std::pow(u.back(), -0.5) + noise * (i % 2 == 0 ? 1 : -1));
    }
    return change_by_doubling(u, y, fit_power_law(u, y).value());
  };
  const double expected = 30 * (std::pow(20'000, -0.5) - std::pow(10'000, -0.5));
  const Estimate exact = change(0), noisy = change(0.005), noisier = change(0.01);
  EXPECT_NEAR(exact.value, expected, 1e-6);
  EXPECT_NEAR(exact.low, expected, 0.01);
  EXPECT_NEAR(exact.high, expected, 0.01);
  for (const Estimate& estimate : {noisy, noisier}) {
    EXPECT_LT(estimate.low, expected);
    EXPECT_GT(estimate.high, expected);
    EXPECT_LT(estimate.high, 0) << "the law falls";
  }
  EXPECT_GT(noisier.high - noisier.low, 1.5 * (noisy.high - noisy.low));
}

TEST(Statistics, ThePowerLawIsThatOfLeastSquares) {
  std::vector<double> u, y;
  for (int i = 1; i <= 20; ++i) {
    u.push_back(500 * i);
    y.push_back(1.3 + 300 * std::pow(u.back(), -0.925));
  }
  const auto law = fit_power_law(u, y);
  ASSERT_TRUE(law);
  EXPECT_NEAR(law->c, 0.925, 1e-5);
  EXPECT_NEAR(law->a, 1.3, 1e-5);
  EXPECT_NEAR(law->b, 300, 0.02);
}

TEST(Statistics, Correlates) {
  const std::vector<double> x = {1, 2, 3, 4, 5, 6}, y = {1, 4, 9, 16, 25, 36}, flat = {1, 1, 1, 1, 1, 1};
  EXPECT_NEAR(spearman(x, y)->value, 1, 1e-12);
  const auto r = pearson(x, y);
  EXPECT_NEAR(r->value, 0.978917, 1e-6);
  EXPECT_LT(r->low, r->value);
  EXPECT_GT(r->high, r->value);
  EXPECT_FALSE(pearson(x, flat));
}

TEST(Statistics, StudentsTIsContinuousAcrossTheTable) {
  EXPECT_NEAR(student_t95(30), 2.042, 1e-9);
  EXPECT_NEAR(student_t95(31), 2.0395, 0.002);
  EXPECT_NEAR(student_t95(1000), 1.9623, 0.001);
}

}  // namespace
}  // namespace babelring::insight
