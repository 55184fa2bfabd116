#include "nmt/data/unit_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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
    std::vector<double> shares;
    for (const int count : counts) shares.push_back(static_cast<double>(count) / units);
    EXPECT_EQ(unit_counts(shares, units), counts);
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
  UpdateShares shares(4);
  shares.set(10, {0.1, 0.2, 0.4, 0.3});
  std::vector<int> computed;
  for (int rank = 0; rank < 4; ++rank) {
    UpdateBatches batches{.update = 10};
    assign_units(batches, {.rank = rank, .world = 4, .units = 16, .shares = &shares});
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
  assign_units(before, {.rank = 1, .world = 4, .units = 16, .shares = &shares});
  EXPECT_THAT(before.computed, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(before.moved, IsEmpty());
}

}  // namespace
}  // namespace babelring
