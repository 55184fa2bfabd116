#include "base/json.h"

#include <gtest/gtest.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace babelring {
namespace {

std::string round_trip(std::string_view text) {
  return to_text(parse_json(text).value());
}

TEST(Json, CompactTextReadsBackEqual) {
  const std::string text =
      R"({"a":[1,-2,3.25,true,false,null,""],"b":{"c":18446744073709551615},"d":"x\"\\\n\r\t\u0001é🙂"})";
  EXPECT_EQ(round_trip(text), text);
  EXPECT_EQ(round_trip(" [ 1 , 2 ] "), "[1,2]");
  EXPECT_EQ(round_trip(R"({"\u0061\u00e9":1})"), "{\"aé\":1}");
}

TEST(Json, DoublesHaveTheShortestExactDigits) {
  EXPECT_EQ(to_text(json::value(3.217)), "3.217");
  EXPECT_EQ(to_text(json::value(0.1)), "0.1");
  EXPECT_EQ(to_text(json::value(-0.0)), "-0.0");
  EXPECT_EQ(to_text(json::value(1e300)), "1e+300");
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    double number;
    const std::uint64_t bits = random();
    static_assert(sizeof bits == sizeof number);
    std::memcpy(&number, &bits, sizeof number);
    if (!std::isfinite(number)) continue;
    const double back = parse_json(to_text(json::value(number))).value().to_number<double>();
    ASSERT_EQ(back, number) << to_text(json::value(number));
    ASSERT_EQ(std::signbit(back), std::signbit(number));
  }
}

TEST(Json, UnderflowIsZero) {
  EXPECT_EQ(parse_json("1e-400")->get_double(), 0.0);
  EXPECT_EQ(parse_json("5e-324")->get_double(), 5e-324);
  EXPECT_EQ(parse_json("1.7976931348623157e308")->get_double(), std::numeric_limits<double>::max());
}

TEST(Json, NonFiniteNumbersAreWrittenAsNull) {
  EXPECT_EQ(to_text(json::array{std::nan(""), HUGE_VAL, -HUGE_VAL}), "[null,null,null]");
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse_json(nested(32)).ok());
  const auto deep = parse_json(nested(33));
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.error().find("too deep"), std::string::npos) << deep.error();
}

struct Refused {
  const char* text;
  const char* part;  // of the message
};

class JsonRefused : public testing::TestWithParam<Refused> {};

TEST_P(JsonRefused, WithPositionAndReason) {
  const auto result = parse_json(GetParam().text);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().rfind("JSON, byte ", 0), 0U) << result.error();
  EXPECT_NE(result.error().find(GetParam().part), std::string::npos) << result.error();
}

INSTANTIATE_TEST_SUITE_P(
    Texts, JsonRefused,
    testing::Values(Refused{R"({"a":1,"b":2,"a":3})", "duplicate member 'a'"},
                    Refused{R"([{"x":{"a":1,"\u0061":3}}])", "duplicate member 'a'"},
                    Refused{"1e400", "beyond the range of a double"}, Refused{"[-1e999]", "beyond the range"},
                    Refused{"NaN", "byte 0: syntax"}, Refused{"[Infinity]", "byte 1: syntax"},
                    Refused{"-Infinity", "syntax"}, Refused{"", "incomplete"}, Refused{"[1,2", "incomplete"},
                    Refused{"1 2", "extra data"}, Refused{"[1] x", "extra data"}, Refused{"[1,]", "syntax"},
                    Refused{"{\"a\" 1}", "syntax"}, Refused{"\"\x01\"", "byte"}, Refused{"\"\xff\"", "byte"},
                    Refused{"// c\n1", "syntax"}, Refused{"01", "byte 1"}, Refused{"\"\\ud800\"", "byte 7"}));

TEST(Json, EqualNamesInDifferentObjectsAreFine) {
  EXPECT_TRUE(parse_json(R"([{"a":{"a":1}},{"a":2,"b":{"a":3,"b":4}}])").ok());
}

TEST(JsonGet, ReadsMembersOfTheirTypeOnly) {
  const json::object object =
      parse_json(R"({"text": "a", "integer": 3, "number": 0.5, "flag": true, "object": {"x": 1}, "null": null})")
          ->as_object();
  EXPECT_EQ(get_text(object, "text"), "a");
  EXPECT_EQ(get_integer(object, "integer"), 3);
  EXPECT_EQ(get_number(object, "integer"), 3.0);
  EXPECT_EQ(get_number(object, "number"), 0.5);
  EXPECT_TRUE(get_flag(object, "flag"));
  ASSERT_NE(get_object(object, "object"), nullptr);
  EXPECT_EQ(get_integer(*get_object(object, "object"), "x"), 1);
  for (const char* name : {"absent", "null", "object"}) {
    EXPECT_EQ(get_text(object, name), "");
    EXPECT_EQ(get_integer(object, name), 0);
    EXPECT_EQ(get_number(object, name), std::nullopt);
    EXPECT_FALSE(get_flag(object, name));
  }
  EXPECT_EQ(get_integer(object, "number"), 0);
  EXPECT_EQ(get_object(object, "text"), nullptr);
}

}  // namespace

}  // namespace babelring
