#include "worker/rank_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace babelring {
namespace {

using testing::HasSubstr;

TEST(RankThreads, AreDividedEvenlyOrAsConfigured) {
  const Processors four{.allowed = {0, 1, 2, 3}};
  EXPECT_EQ(divide_processors({four, four}, 0, "birch").of_rank, (std::vector{2, 2}));
  EXPECT_EQ(divide_processors({four, four}, 0, "birch").warning, "");
  EXPECT_EQ(divide_processors({four, four}, 1, "birch").of_rank, (std::vector{1, 1}));
  EXPECT_EQ(divide_processors({four, four}, 1, "birch").warning, "");
}

TEST(RankThreads, WarnIfTheyExceedTheProcessors) {
  const Processors two{.allowed = {0, 1}};
  EXPECT_EQ(divide_processors({two, two}, 2, "birch").warning,
            "host birch: the run's 2 ranks have 4 threads, but may use 2 processors: updates are slow; leave "
            "training.threads at 0");
  EXPECT_THAT(divide_processors({two, two, two}, 0, "birch").warning, HasSubstr("start fewer ranks on it"));
  const Processors limited{.allowed = {0, 1}, .quota = 1};
  EXPECT_EQ(divide_processors({limited}, 0, "birch").warning, "");
  EXPECT_EQ(divide_processors({limited}, 2, "birch").warning,
            "host birch: the run's 1 rank has 2 threads, but may use 1 processor (a CPU quota of 1.0): updates are "
            "slow; leave training.threads at 0");
}

TEST(RankThreads, BoundRanksUseTheirOwnProcessors) {
  const Processors left{.allowed = {0}}, right{.allowed = {1}};
  EXPECT_EQ(divide_processors({left, right}, 0, "birch").of_rank, (std::vector{1, 1}));
  EXPECT_EQ(divide_processors({left, right}, 0, "birch").warning, "");
}

}  // namespace
}  // namespace babelring
