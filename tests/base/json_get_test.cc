#include "base/json_get.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace babelring {
namespace {

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
