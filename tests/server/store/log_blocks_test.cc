#include "server/store/log_blocks.h"

#include <gtest/gtest.h>

#include "base/failure.h"

namespace babelring::store {
namespace {

TEST(LogBlock, GivesBackWhatWasPutIn) {
  LogBlock block;
  const std::string nul("a\0b", 3), level(300, 'x');
  block.add({1, 0, 5, "info", "first"});
  block.add({2, 7, 6, level, nul});
  block.add({2, 3, 7, "", ""});
  EXPECT_EQ(block.lowest_rank(), 0);
  EXPECT_EQ(block.highest_rank(), 7);
  const std::string packed = block.compressed();
  const std::string raw = unpack_block(packed, block.raw_bytes());
  std::vector<LogLine> lines;
  visit_lines(raw, [&](const LogLine& line) {
    lines.push_back(line);
    return true;
  });
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].text, "first");
  EXPECT_EQ(lines[1].text, nul);
  EXPECT_EQ(lines[1].level.size(), 255u);
  EXPECT_EQ(lines[1].rank, 7);
  EXPECT_EQ(lines[2].time_ms, 7);
}

TEST(LogBlock, RefusesDamage) {
  LogBlock block;
  block.add({1, 0, 5, "info", std::string(1000, 'x')});
  std::string packed = block.compressed();
  EXPECT_THROW(unpack_block(packed.substr(0, packed.size() / 2), block.raw_bytes()), Failure);
  EXPECT_THROW(unpack_block(packed, block.raw_bytes() + 1), Failure);
  const std::string raw = unpack_block(packed, block.raw_bytes());
  const auto all = [](const LogLine&) { return true; };
  EXPECT_THROW(visit_lines(std::string_view(raw).substr(0, 10), all), Failure);
  EXPECT_THROW(visit_lines(std::string_view(raw).substr(0, 100), all), Failure);
}

}  // namespace
}  // namespace babelring::store
