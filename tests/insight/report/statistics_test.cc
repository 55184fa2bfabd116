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
