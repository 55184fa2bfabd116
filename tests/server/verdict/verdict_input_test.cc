#include "server/verdict/verdict_input.h"

#include <gtest/gtest.h>

#include "tests/server/api_fixture.h"

namespace babelring::verdict {
namespace {

class VerdictInputTest : public babelring::testing::ApiFixture {
 protected:
  void train(std::int64_t rank, std::int64_t updates) {
    std::vector<Record> records;
    for (std::int64_t update = 1; update <= updates; ++update) {
      records.push_back(babelring::testing::step_record(update, update, rank));
    }
    babelring::testing::put(server.store(), std::move(records));
  }
  Input read(std::int64_t max_step_rows) {
    auto reader = server.store().reader();
    return read_input(*reader, *store::find_run(*reader, babelring::testing::run_id), max_step_rows);
  }
};

TEST_F(VerdictInputTest, ReadsTheNewestUpdatesOfAllRanks) {
  for (const std::int64_t rank : {0, 1}) train(rank, 60);
  EXPECT_EQ(read(verdict_step_rows).ranks.at(1).steps.size(), 60u);
  const Input few = read(50);
  ASSERT_EQ(few.ranks.size(), 2u);
  for (const RankSteps& rank : few.ranks) {
    ASSERT_EQ(rank.steps.size(), 25u);
    EXPECT_EQ(rank.steps.front().update, 36);
    EXPECT_EQ(rank.steps.back().update, 60);
  }
  EXPECT_EQ(read(2).ranks.at(0).steps.size(), 16u) << "fewer would not be enough for a verdict";
}

TEST_F(VerdictInputTest, KeepsARankThatIsOnlyALittleBehind) {
  train(0, 60);
  train(1, 30);  // its reporter sends its records later
  const Input few = read(32);
  ASSERT_EQ(few.ranks.size(), 2u);
  EXPECT_EQ(few.ranks[0].steps.back().update, 30) << "the newest update of both";
  EXPECT_EQ(few.ranks[1].steps.back().update, 30);
}

}  // namespace
}  // namespace babelring::verdict
