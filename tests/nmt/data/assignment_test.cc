#include "nmt/data/assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(UpdateAssignment, AreEqualUntilOthersBegin) {
  UpdateAssignment fractions(2);
  fractions.set(30, {3, 1});
  EXPECT_THAT(*fractions.bounds(29), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(*fractions.bounds(30), ElementsAre(0, 0.75, 1));
  fractions.set(130, {1, 3});
  EXPECT_THAT(*fractions.bounds(129), ElementsAre(0, 0.75, 1));
  EXPECT_THAT(*fractions.bounds(1000), ElementsAre(0, 0.25, 1));
}

TEST(UpdateAssignment, RefusesAShareOfNothing) {
  UpdateAssignment fractions(2);
  EXPECT_THROW(fractions.set(1, {1, 0}), Failure);
  EXPECT_THROW(fractions.set(1, {1}), Failure);
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
  const std::vector<double> half_speed = balanced_fractions({0.5, 0.5}, exact_times({100, 200}));
  EXPECT_THAT(half_speed, ElementsAre(DoubleNear(2 / 3.0, 1e-9), DoubleNear(1 / 3.0, 1e-9)));
  EXPECT_EQ(balanced_fractions(half_speed, exact_times({133, 133})), half_speed);
}

TEST(BalancedShares, StayIfLittleWouldChange) {
  const std::vector<double> equal{0.5, 0.5};
  EXPECT_EQ(balanced_fractions(equal, exact_times({100, 104})), equal);
  EXPECT_EQ(balanced_fractions(equal, exact_times({100, 0})), equal) << "not measured";
}

TEST(BalancedShares, StayIfNoiseExplainsTheDifference) {
  const std::vector<double> equal{0.5, 0.5};
  const std::vector<double> steady(8, 100);
  // The second rank takes 17 % longer on average, because of two of eight blocks.
  EXPECT_EQ(balanced_fractions(equal, {steady, {100, 180, 98, 101, 155, 99, 102, 101}}), equal);
  // 17 % longer in each.
  EXPECT_LT(balanced_fractions(equal, {steady, {117, 118, 110, 121, 119, 113, 117, 121}})[1], 0.47);
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
    changes += balanced_fractions({0.5, 0.5}, times) != std::vector<double>{0.5, 0.5} ? 1 : 0;
  }
  EXPECT_LT(changes, trials * 3 / 100);
  EXPECT_GT(changes, 0) << "no measurement excludes chance";
}

TEST(BalancedShares, KeepAQuarterAndAtMostDoubleAnEqualShare) {
  const std::vector<double> fractions =
      balanced_fractions({0.25, 0.25, 0.25, 0.25}, exact_times({1, 100, 100, 10'000}));
  EXPECT_NEAR(fractions[0], 0.5, 1e-3);
  EXPECT_GE(fractions[3], 0.0625 - 1e-3);
  EXPECT_NEAR(fractions[0] + fractions[1] + fractions[2] + fractions[3], 1, 1e-12);
}

TEST(UnitAssignment, GivesFasterRanksMoreUnits) {
  EXPECT_THAT(unit_counts({0.5, 0.5}, 8), ElementsAre(4, 4));
  EXPECT_THAT(unit_counts({0.52, 0.48}, 8), ElementsAre(4, 4)) << "5 units of the faster one would take longer";
  EXPECT_THAT(unit_counts({0.6, 0.4}, 8), ElementsAre(5, 3));
  EXPECT_THAT(unit_counts({0.6, 0.4}, 64), ElementsAre(38, 26));
  EXPECT_THAT(unit_counts({0.3, 0.3, 0.3, 0.1}, 8), ElementsAre(3, 2, 2, 1)) << "any order takes equally long";
}

TEST(UnitAssignment, GivesEachRankAUnitAndNoneMoreThanTwiceItsPart) {
  EXPECT_THAT(unit_counts({0.9, 0.1}, 2), ElementsAre(1, 1));
  EXPECT_THAT(unit_counts({0.999, 0.0005, 0.0005, 0.0001}, 8), ElementsAre(4, 2, 1, 1));
}

TEST(UnitAssignment, KeepsSharesOfWholeUnits) {
  for (const std::vector<int>& counts : {std::vector{5, 3}, {1, 7, 4, 4}, {33, 31}}) {
    const int units = std::accumulate(counts.begin(), counts.end(), 0);
    std::vector<double> fractions;
    for (const int count : counts) fractions.push_back(static_cast<double>(count) / units);
    EXPECT_EQ(unit_counts(fractions, units), counts);
  }
}

TEST(UnitAssignment, MovesAsFewUnitsAsPossible) {
  EXPECT_THAT(moved_units({4, 4}), IsEmpty());
  EXPECT_THAT(moved_units({5, 3}), ElementsAre(MovedUnit{.unit = 7, .computed_by = 0, .home = 1}));
  EXPECT_THAT(moved_units({1, 3, 1, 3}), ElementsAre(MovedUnit{.unit = 1, .computed_by = 1, .home = 0},
                                                     MovedUnit{.unit = 5, .computed_by = 3, .home = 2}));
  EXPECT_THAT(moved_units({2, 6, 4, 4}), ElementsAre(MovedUnit{.unit = 2, .computed_by = 1, .home = 0},
                                                     MovedUnit{.unit = 3, .computed_by = 1, .home = 0}));
}

TEST(UnitAssignment, RanksTogetherComputeEachUnitOnce) {
  UpdateAssignment assignment(4);
  assignment.set(10, {0.1, 0.2, 0.4, 0.3});
  std::vector<int> computed;
  for (int rank = 0; rank < 4; ++rank) {
    UpdateBatches batches{.update = 10};
    assign_units(batches, {.rank = rank, .world = 4, .units = 16, .assignment = &assignment});
    EXPECT_EQ(batches.units.first, 4 * rank) << "its place in the tree stays";
    EXPECT_EQ(batches.units.count, 4);
    EXPECT_EQ(batches.receives(), rank < 2);
    computed.insert(computed.end(), batches.computed.begin(), batches.computed.end());
    if (rank == 2) {
      EXPECT_THAT(batches.computed, ElementsAre(1, 2, 3, 8, 9, 10, 11)) << "others' units first";
    }
  }
  std::ranges::sort(computed);
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  EXPECT_EQ(computed, all);
  UpdateBatches before{.update = 9};
  assign_units(before, {.rank = 1, .world = 4, .units = 16, .assignment = &assignment});
  EXPECT_THAT(before.computed, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(before.moved, IsEmpty());
}

}  // namespace
}  // namespace babelring
