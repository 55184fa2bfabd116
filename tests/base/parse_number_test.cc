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

TEST(ParseDecimal, ReadsNumbersAsAPersonDoes) {
  EXPECT_EQ(parse_decimal<int>("010"), 10);
  EXPECT_EQ(parse_decimal<int>("+7"), 7);
  EXPECT_EQ(parse_decimal<std::int64_t>("1e6"), 1'000'000);
  EXPECT_EQ(parse_decimal<std::int64_t>("-2.5e3"), -2500);
  EXPECT_EQ(parse_decimal<std::int64_t>("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parse_decimal<std::uint64_t>("18446744073709551615"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(parse_decimal<double>("+0.50"), 0.5);
  EXPECT_EQ(parse_decimal<double>("010"), 10);
}

TEST(ParseDecimal, RefusesOtherTexts) {
  for (const char* text :
       {"", "+", "-", "+-1", " 1", "0x10", "1.5", "4.0", "1e-1", "nan", "inf", "3e9", "ten", "1,000"}) {
    EXPECT_EQ(parse_decimal<int>(text), std::nullopt) << text;
  }
  EXPECT_EQ(parse_decimal<std::uint64_t>("-1"), std::nullopt);
  EXPECT_EQ(parse_decimal<std::int64_t>("9223372036854775808"), std::nullopt);
  for (const char* text : {"nan", "-nan", "inf", "-inf", "infinity", "0x1p3", "1e999", ""}) {
    EXPECT_EQ(parse_decimal<double>(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace babelring
