#include "nmt/core/shards.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <vector>

#include "base/failure.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Shards, CoverTheWholeArrayByDefault) {
  EXPECT_FALSE(Shards().divided());
  EXPECT_FALSE(Shards(1000, 0, 1).divided());
  EXPECT_THAT(Shards().within({3, 1'000'000'007}), ElementsAre(ElementRange{3, 1'000'000'007}));
  EXPECT_THAT(Shards().within({5, 5}), IsEmpty());
}

TEST(Shards, AssignStripesRoundRobin) {
  constexpr std::int64_t grain = Shards::grain;
  const Shards first(5 * grain, 0, 2), second(5 * grain, 1, 2);
  EXPECT_TRUE(first.divided());
  EXPECT_THAT(first.within({0, 5 * grain}), ElementsAre(ElementRange{0, grain}, ElementRange{2 * grain, 3 * grain},
                                                        ElementRange{4 * grain, 5 * grain}));
  EXPECT_THAT(second.within({7, 3 * grain + 9}),
              ElementsAre(ElementRange{grain, 2 * grain}, ElementRange{3 * grain, 3 * grain + 9}));
  EXPECT_THAT(first.within({grain, 2 * grain}), IsEmpty());
}

TEST(Shards, HaveStripesOfAGivenLength) {
  constexpr std::int64_t grain = Shards::grain;
  const Shards second = Shards::in_stripes(2 * grain, 1, 3);
  EXPECT_TRUE(second.divided());
  EXPECT_THAT(second.within({3 * grain, 9 * grain}),
              ElementsAre(ElementRange{3 * grain, 4 * grain}, ElementRange{8 * grain, 9 * grain}));
  EXPECT_THROW(Shards::in_stripes(0, 0, 1), Failure);
  EXPECT_THROW(Shards::in_stripes(grain + 64, 0, 1), Failure);
  EXPECT_THROW(Shards::in_stripes(grain, 3, 3), Failure);
}

TEST(Shards, DivideEveryRangeEvenlyWithoutOverlap) {
  for (const int ranks : {1, 2, 3, 7}) {
    for (const std::int64_t count : {1, 16384, 100'003, 60'512'256}) {
      std::vector<ElementRange> all;
      std::int64_t largest = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        std::int64_t size = 0;
        for (const ElementRange& part : Shards(count, rank, ranks).within({0, count})) {
          EXPECT_EQ(part.begin % Shards::grain, 0);
          size += part.end - part.begin;
          all.push_back(part);
        }
        largest = std::max(largest, size);
      }
      std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
      std::int64_t end = 0;
      for (const ElementRange& part : all) {
        EXPECT_EQ(part.begin, end) << ranks << " ranks";
        end = part.end;
      }
      EXPECT_EQ(end, count) << ranks << " ranks";
      if (count > 50'000'000) {
        EXPECT_LT(largest, count / ranks * 103 / 100) << ranks << " ranks";
      }
    }
  }
}

TEST(Shards, RejectAnInvalidRank) {
  EXPECT_THROW(Shards(10, 2, 2), Failure);
  EXPECT_THROW(Shards(10, -1, 2), Failure);
  EXPECT_THROW(Shards(10, 0, 0), Failure);
}

}  // namespace
}  // namespace babelring
