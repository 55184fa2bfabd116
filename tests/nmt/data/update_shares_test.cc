#include "nmt/data/update_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/failure.h"

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

TEST(BalancedShares, LetEveryRankComputeEquallyLong) {
  const std::vector<double> half_speed = balanced_shares({0.5, 0.5}, {100, 200});
  EXPECT_THAT(half_speed, ElementsAre(DoubleNear(2 / 3.0, 1e-9), DoubleNear(1 / 3.0, 1e-9)));
  EXPECT_EQ(balanced_shares(half_speed, {133, 133}), half_speed);
}

TEST(BalancedShares, StayIfLittleWouldChange) {
  const std::vector<double> equal{0.5, 0.5};
  EXPECT_EQ(balanced_shares(equal, {100, 104}), equal);
  EXPECT_EQ(balanced_shares(equal, {100, 0}), equal) << "not measured";
}

TEST(BalancedShares, KeepAQuarterAndAtMostDoubleAnEqualShare) {
  const std::vector<double> shares = balanced_shares({0.25, 0.25, 0.25, 0.25}, {1, 100, 100, 10'000});
  EXPECT_NEAR(shares[0], 0.5, 1e-3);
  EXPECT_GE(shares[3], 0.0625 - 1e-3);
  EXPECT_NEAR(shares[0] + shares[1] + shares[2] + shares[3], 1, 1e-12);
}

}  // namespace
}  // namespace babelring
