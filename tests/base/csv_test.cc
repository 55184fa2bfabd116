#include "base/csv.h"

#include <gmock/gmock.h>

#include "base/failure.h"

namespace babelring {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& text, const auto& use) {
  try {
    use(CsvTable("t.csv", text));
  } catch (const UsageFailure& failure) {
    return failure.what();
  }
  return "accepted";
}

TEST(CsvTest, ReadsFieldsQuotesAndEmptyNumbers) {
  const CsvTable table("t.csv", "name,ms\r\n\"a, \"\"b\"\"\",1.5\n\nc,\nd,N/A\n");
  ASSERT_EQ(table.rows(), 3);
  EXPECT_EQ(table.text(0, "name"), "a, \"b\"");
  EXPECT_EQ(table.number(0, "ms"), 1.5);
  EXPECT_FALSE(table.optional_number(1, "ms"));
  EXPECT_FALSE(table.optional_number(2, "ms"));
  EXPECT_TRUE(table.has("ms"));
  EXPECT_EQ(table.place(1), "t.csv:4");
}

TEST(CsvTest, NamesThePlaceOfAnError) {
  const auto nothing = [](const CsvTable&) {};
  EXPECT_THAT(error_of("", nothing), HasSubstr("found no line"));
  EXPECT_THAT(error_of("a,b\n1\n", nothing), HasSubstr("t.csv:2: found 1 fields, expected 2"));
  EXPECT_THAT(error_of("a\n\"1\n", nothing), HasSubstr("t.csv:2: found a quote that does not end"));
  EXPECT_THAT(error_of("a\nx\n", [](const CsvTable& t) { t.number(0, "a"); }),
              HasSubstr("t.csv:2: a: found 'x', expected a number"));
  EXPECT_THAT(error_of("a\n-1\n", [](const CsvTable& t) { t.number(0, "a"); }), HasSubstr("of at least 0"));
  EXPECT_THAT(error_of("a\n-1\n", [](const CsvTable& t) { t.number(0, "a", true); }), HasSubstr("accepted"));
  EXPECT_THAT(error_of("a\nN/A\n", [](const CsvTable& t) { t.number(0, "a"); }), HasSubstr("found 'N/A'"));
  EXPECT_THAT(error_of("a\n1\n", [](const CsvTable& t) { t.text(0, "b"); }), HasSubstr("found no column b"));
}

TEST(CsvTest, QuotesWhatNeedsIt) {
  EXPECT_EQ(csv_field("a b"), "a b");
  EXPECT_EQ(csv_field("a,\"b"), "\"a,\"\"b\"");
}

}  // namespace
}  // namespace babelring
