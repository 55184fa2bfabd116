#include "nmt/decode/row_placement.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "nmt/core/random.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(PlaceRows, KeepsRowsThatStay) {
  const RowPlacement placement = place_rows(std::vector<std::int32_t>{2, 0, 1});
  EXPECT_THAT(placement.rows, ElementsAre(2, 0, 1));
  EXPECT_THAT(placement.moves, IsEmpty());
}

TEST(PlaceRows, GivesTheFirstChildItsParentsRow) {
  const RowPlacement placement = place_rows(std::vector<std::int32_t>{1, 1, 1, 3});
  EXPECT_THAT(placement.rows, ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(placement.moves, ElementsAre(RowMove{1, 0}, RowMove{1, 2}));
}

TEST(PlaceRows, MovesDownWhatLiesBeyond) {
  const RowPlacement placement = place_rows(std::vector<std::int32_t>{7, 1, 7});
  EXPECT_THAT(placement.rows, ElementsAre(0, 1, 2));
  EXPECT_THAT(placement.moves, ElementsAre(RowMove{7, 0}, RowMove{7, 2}));
}

TEST(PlaceRows, OfNothingIsNothing) {
  EXPECT_THAT(place_rows({}).rows, IsEmpty());
}

// Rows as a search has them, growing and shrinking: after the moves each row holds what its parent's row held.
TEST(PlaceRows, NeverLosesContent) {
  Random random(1);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const auto rows_before = static_cast<std::int32_t>(1 + random.below(40));
    const std::size_t count = random.below(40);
    std::vector<std::int32_t> parents(count);
    for (std::int32_t& parent : parents) {
      parent = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(rows_before)));
    }
    const RowPlacement placement = place_rows(parents);
    std::vector<std::int32_t> content(80);
    for (std::int32_t row = 0; row < rows_before; ++row) content[static_cast<std::size_t>(row)] = row;
    std::vector<std::int32_t> written;
    for (const RowMove& move : placement.moves) {
      EXPECT_EQ(std::count(written.begin(), written.end(), move.from), 0) << "read after it was written";
      content[static_cast<std::size_t>(move.to)] = content[static_cast<std::size_t>(move.from)];
      written.push_back(move.to);
    }
    const std::set<std::int32_t> distinct(placement.rows.begin(), placement.rows.end());
    ASSERT_EQ(distinct.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_LT(placement.rows[i], static_cast<std::int32_t>(count));
      EXPECT_EQ(content[static_cast<std::size_t>(placement.rows[i])], parents[i]);
    }
  }
}

}  // namespace
}  // namespace babelring
