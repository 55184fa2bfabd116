#include "cli/runs/table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <sstream>

#include "base/failure.h"

namespace babelring {
namespace {

std::string printed(const Table& table, int width = 0, bool colour = false) {
  std::ostringstream out;
  table.print({.out = out, .live = colour, .colour = colour, .width = width});
  return out.str();
}

Table example() {
  Table table({{.title = "ID", .importance = 100},
               {.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "EMPTY"},
               {.title = "LOSS", .right = true, .importance = 50},
               {.title = "AGE", .right = true, .importance = 20}});
  table.add({{"r_1"}, {"short"}, {""}, {"4.5"}, {"1 s"}});
  table.add({{"r_22"}, {"größerer Name als sonst"}, {""}, {"10.25"}, {"12 min 3 s"}});
  return table;
}

TEST(Table, AlignsAndDropsEmptyColumns) {
  EXPECT_EQ(printed(example()),
            "ID    NAME                      LOSS         AGE\n"
            "r_1   short                      4.5         1 s\n"
            "r_22  größerer Name als sonst  10.25  12 min 3 s\n");
}

TEST(Table, DropsTheLeastImportantColumnThenShrinks) {
  EXPECT_EQ(printed(example(), 40),
            "ID    NAME                      LOSS\n"
            "r_1   short                      4.5\n"
            "r_22  größerer Name als sonst  10.25\n");
  EXPECT_EQ(printed(example(), 30),
            "ID    NAME                LOSS\n"
            "r_1   short                4.5\n"
            "r_22  größerer Name al…  10.25\n");
  for (int width = 20; width < 60; ++width) {
    std::istringstream lines(printed(example(), width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(text_width(line), static_cast<std::size_t>(width));
  }
}

TEST(Table, CutsTheMoreImportantTextLast) {
  Table table({{.title = "NAME", .importance = 100, .shrinks = true},
               {.title = "AGE", .importance = 20},
               {.title = "WHY", .importance = 100, .shrinks = true, .shrinks_at = 50, .comfortable = 10}});
  table.add({{"a name of twenty-four c."}, {"12 min"}, {"a reason of thirty characters."}});
  EXPECT_EQ(printed(table, 56),
            "NAME              AGE     WHY\n"
            "a name of twent…  12 min  a reason of thirty characters.\n");
  EXPECT_EQ(printed(table, 50),
            "NAME                WHY\n"
            "a name of twenty-…  a reason of thirty characters.\n");
  EXPECT_EQ(printed(table, 40),
            "NAME              WHY\n"
            "a name of twent…  a reason of thirty ch…\n");
  EXPECT_EQ(printed(table, 20), "NAME      WHY\na name …  a reason …\n");
}

/// Names of runs may be in any script.
TEST(Table, AlignsWideAndCombiningCharacters) {
  Table table({{.title = "NAME", .importance = 100, .shrinks = true}, {.title = "WHY", .importance = 100}});
  table.add({{"名前の長い実験"}, {"x"}});
  table.add({{"u\u0308ber alle Maßen"}, {"y"}});
  EXPECT_EQ(printed(table),
            "NAME             WHY\n"
            "名前の長い実験   x\n"
            "u\u0308ber alle Maßen  y\n");
  EXPECT_EQ(printed(table, 14),
            "NAME       WHY\n"
            "名前の長…  x\n"
            "u\u0308ber all…  y\n");
  EXPECT_EQ(cut("名前", 4), "名前");
  EXPECT_EQ(cut("名前の", 4), "名…");
  EXPECT_EQ(text_width("a\xff"), 2u) << "damaged UTF-8";
}

TEST(Table, ColoursOnlyOnRequest) {
  Table table({{.title = "STATE"}, {.title = "X"}});
  table.add({{"failed", Colour::red}, {"y"}});
  EXPECT_EQ(printed(table).find('\x1b'), std::string::npos);
  EXPECT_NE(printed(table, 0, true).find("\x1b[31mfailed\x1b[0m"), std::string::npos);
}

TEST(Table, ARowOfWrongLengthIsRefused) {
  Table table({{.title = "A"}});
  EXPECT_THROW(table.add({{"1"}, {"2"}}), Failure);
}

TEST(TextFormat, IsReadable) {
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(grouped(-1234), "-1,234");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(243e6), "243.0 MB");
  EXPECT_EQ(seconds_text(59.4), "59 s");
  EXPECT_EQ(seconds_text(451), "7 min 31 s");
  EXPECT_EQ(seconds_text(7322), "2 h 2 min");
  EXPECT_EQ(seconds_text(200000), "2 d 7 h");
  EXPECT_EQ(seconds_text(-5), "0 s");
}

TEST(TextFormat, HasTheReadersTimeInTheServersWords) {
  ::setenv("TZ", "UTC-1", 1);  // one hour ahead of UTC
  ::tzset();
  constexpr std::int64_t now_ms = 1'795'903'200'000;  // 2026-11-28T22:00:00Z
  EXPECT_EQ(local_times("Silent since 2026-11-28T21:46:10.123Z: the last", now_ms), "Silent since 22:46: the last");
  EXPECT_EQ(local_times("2026-11-27T23:30:00Z, 2 of 3", now_ms), "00:30, 2 of 3");
  EXPECT_EQ(local_times("last 2026-11-27T21:46:10Z", now_ms), "last 2026-11-27 22:46");
  for (const char* same : {"", "update 1,234", "2026-11-27", "2026-11-27T21:46:10", "2026-11-27T21:46Z", "20 größer"})
    EXPECT_EQ(local_times(same, now_ms), same);
  ::unsetenv("TZ");
  ::tzset();
}

}  // namespace
}  // namespace babelring
