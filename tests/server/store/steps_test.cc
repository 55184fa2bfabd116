#include "server/store/steps.h"

#include <gtest/gtest.h>

namespace babelring::store {
namespace {

TEST(SequenceNumbers, FindsRepeatsAndGapsInAnyOrder) {
  SequenceNumbers set;
  for (const std::int64_t n : {5, 1, 3, 2, 9}) EXPECT_TRUE(set.insert(n));
  for (const std::int64_t n : {1, 2, 3, 5, 9}) EXPECT_FALSE(set.insert(n));
  EXPECT_EQ(set.ranges(), (SequenceNumbers::Ranges{{1, 3}, {5, 5}, {9, 9}}));
  EXPECT_EQ(set.missing(), 4);
  for (const std::int64_t n : {4, 8, 6, 7}) EXPECT_TRUE(set.insert(n));
  EXPECT_EQ(set.ranges(), (SequenceNumbers::Ranges{{1, 9}}));
  EXPECT_EQ(set.missing(), 0);
}

}  // namespace

}  // namespace babelring::store
