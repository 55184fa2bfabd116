#include "nmt/data/update_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

TEST(UpdateShares, AreEqualUntilOthersBegin) {
  UpdateShares shares(2);
  shares.set(30, {3, 1});
  EXPECT_THAT(*shares.bounds(29), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(*shares.bounds(30), ElementsAre(0, 0.75, 1));
  shares.set(130, {1, 3});
  EXPECT_THAT(*shares.bounds(129), ElementsAre(0, 0.75, 1));
  EXPECT_THAT(*shares.bounds(1000), ElementsAre(0, 0.25, 1));
}

TEST(UpdateShares, RefusesAShareOfNothing) {
  UpdateShares shares(2);
  EXPECT_THROW(shares.set(1, {1, 0}), Failure);
  EXPECT_THROW(shares.set(1, {1}), Failure);
}

/// Times of ranks that are measured without noise, in eight blocks of updates of different sizes.
std::vector<std::vector<double>> exact_times(const std::vector<double>& ms) {
  std::vector<std::vector<double>> times;
  for (const double of_rank : ms) {
    for (times.emplace_back(); times.back().size() < 8;) {
      times.back().push_back(of_rank * (1 + 0.5 * static_cast<double>(times.back().size() % 3)));
    }
  }
  return times;
}

TEST(BalancedShares, LetEveryRankComputeEquallyLong) {
  const std::vector<double> half_speed = balanced_shares({0.5, 0.5}, exact_times({100, 200}));
  EXPECT_THAT(half_speed, ElementsAre(DoubleNear(2 / 3.0, 1e-9), DoubleNear(1 / 3.0, 1e-9)));
  EXPECT_EQ(balanced_shares(half_speed, exact_times({133, 133})), half_speed);
}

TEST(BalancedShares, StayIfLittleWouldChange) {
  const std::vector<double> equal{0.5, 0.5};
  EXPECT_EQ(balanced_shares(equal, exact_times({100, 104})), equal);
  EXPECT_EQ(balanced_shares(equal, exact_times({100, 0})), equal) << "not measured";
}

TEST(BalancedShares, StayIfNoiseExplainsTheDifference) {
  const std::vector<double> equal{0.5, 0.5};
  const std::vector<double> steady(8, 100);
  // The second rank takes 17 % longer on average, because of two of eight blocks.
  EXPECT_EQ(balanced_shares(equal, {steady, {100, 180, 98, 101, 155, 99, 102, 101}}), equal);
  // 17 % longer in each.
  EXPECT_LT(balanced_shares(equal, {steady, {117, 118, 110, 121, 119, 113, 117, 121}})[1], 0.47);
}

TEST(BalancedShares, SeldomChangeBetweenEqualRanks) {
  Random random(7);
  int changes = 0;
  constexpr int trials = 2000;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<std::vector<double>> times(2, std::vector<double>(8));
    for (std::vector<double>& of_rank : times) {
      for (double& ms : of_rank) ms = 100 * (0.6 + 0.8 * random.uniform());
    }
    changes += balanced_shares({0.5, 0.5}, times) != std::vector<double>{0.5, 0.5} ? 1 : 0;
  }
  EXPECT_LT(changes, trials * 3 / 100);
  EXPECT_GT(changes, 0) << "no measurement excludes chance";
}

TEST(BalancedShares, KeepAQuarterAndAtMostDoubleAnEqualShare) {
  const std::vector<double> shares = balanced_shares({0.25, 0.25, 0.25, 0.25}, exact_times({1, 100, 100, 10'000}));
  EXPECT_NEAR(shares[0], 0.5, 1e-3);
  EXPECT_GE(shares[3], 0.0625 - 1e-3);
  EXPECT_NEAR(shares[0] + shares[1] + shares[2] + shares[3], 1, 1e-12);
}

}  // namespace
}  // namespace babelring
