#include "server/store/turns.h"

#include <gtest/gtest.h>

#include <vector>

namespace babelring::store {
namespace {

TEST(Turns, GivesEachOwnerOneOfItsOldest) {
  Turns<int> turns;
  for (int i = 1; i <= 3; ++i) turns.push("many", i);
  turns.push("few", 10);
  EXPECT_EQ(turns.size_of("many"), 3u);
  std::vector<int> order;
  order.push_back(turns.pop());
  order.push_back(turns.pop());
  turns.push("late", 20);
  while (!turns.empty()) order.push_back(turns.pop());
  EXPECT_EQ(order, (std::vector<int>{1, 10, 2, 20, 3}));
  EXPECT_EQ(turns.size_of("many"), 0u);
}

}  // namespace
}  // namespace babelring::store
