#include "base/parse_number.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

TEST(ParseNumber, AcceptsNothingButANumber) {
  EXPECT_EQ(parse_number<int>("-17"), -17);
  EXPECT_EQ(parse_number<unsigned int>("17"), 17U);
  EXPECT_EQ(parse_number<double>("1e3"), 1000.0);
  for (const char* text : {"", " 1", "1 ", "+1", "1x", "0x1", "99999999999"}) {
    EXPECT_EQ(parse_number<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_number<unsigned int>("-1"), std::nullopt);
}

}  // namespace
}  // namespace babelring
