#include "nmt/comm/add.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace babelring {
namespace {

class AddTest : public testing::TestWithParam<std::int64_t> {};

TEST_P(AddTest, AddsExactlyTheRange) {
  const std::int64_t count = GetParam();
  std::vector<float> sum(static_cast<std::size_t>(count) + 2), addend(sum.size(), 1000.0f);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = 0.1f * static_cast<float>(i);
  add_in_place(sum.data() + 1, addend.data() + 1, count);
  EXPECT_EQ(sum.front(), 0.0f);
  EXPECT_EQ(sum.back(), 0.1f * static_cast<float>(count + 1));
  for (std::size_t i = 1; i + 1 < sum.size(); ++i) EXPECT_EQ(sum[i], 0.1f * static_cast<float>(i) + 1000.0f);
}

TEST_P(AddTest, ConvertsAndAddsBf16LikeBFloat16) {
  const std::int64_t count = GetParam();
  const auto size = static_cast<std::size_t>(count);
  std::vector<float> values(size), back(size), sum(size, 1.0f);
  for (std::size_t i = 0; i < size; ++i) values[i] = 0.37f * static_cast<float>(i) - 100.1f;
  if (size > 2) values[1] = NAN, values[2] = INFINITY;
  std::vector<BFloat16> narrow(size);
  convert(values.data(), narrow.data(), count);
  convert(narrow.data(), back.data(), count);
  add_in_place(sum.data(), narrow.data(), count);
  for (std::size_t i = 0; i < size; ++i) {
    const auto expected = static_cast<float>(BFloat16(values[i]));
    if (std::isnan(values[i])) {
      EXPECT_TRUE(std::isnan(back[i]) && std::isnan(sum[i]));
      continue;
    }
    EXPECT_EQ(back[i], expected);
    EXPECT_EQ(sum[i], 1.0f + expected);
  }
}

TEST_P(AddTest, SumsInPairs) {
  const auto count = static_cast<std::size_t>(GetParam());
  std::vector<std::vector<float>> values(8, std::vector<float>(count));
  std::vector<float*> parts;
  for (std::size_t part = 0; part < values.size(); ++part) {
    for (std::size_t i = 0; i < count; ++i) values[part][i] = 0.1f * static_cast<float>((i * 37 + part * 1000) % 911);
    parts.push_back(values[part].data());
  }
  std::vector<float> expected(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto pair = [&](std::size_t part) { return values[part][i] + values[part + 1][i]; };
    expected[i] = (pair(0) + pair(2)) + (pair(4) + pair(6));
  }
  sum_into_one(parts, parts[5], 0, GetParam(), AddOrder::tree);
  EXPECT_EQ(values[5], expected);
}

TEST_P(AddTest, SumsExactlyTheRangeIntoAllParts) {
  const std::int64_t count = GetParam();
  std::vector<std::vector<float>> parts(3, std::vector<float>(static_cast<std::size_t>(count) + 2));
  const auto value = [](std::size_t part, std::size_t i) { return 0.1f * static_cast<float>(i + 1000 * part); };
  for (std::size_t part = 0; part < parts.size(); ++part) {
    for (std::size_t i = 0; i < parts[part].size(); ++i) parts[part][i] = value(part, i);
  }
  sum_into_all({parts[0].data(), parts[1].data(), parts[2].data()}, 1, count);
  for (std::size_t part = 0; part < parts.size(); ++part) {
    EXPECT_EQ(parts[part].front(), value(part, 0));
    EXPECT_EQ(parts[part].back(), value(part, static_cast<std::size_t>(count) + 1));
    for (std::size_t i = 1; i + 1 < parts[part].size(); ++i) {
      EXPECT_EQ(parts[part][i], value(0, i) + value(1, i) + value(2, i));
    }
  }
}

TEST_P(AddTest, SumsIntoOnePartOnly) {
  const std::int64_t count = GetParam();
  const auto size = static_cast<std::size_t>(count) + 2;
  std::vector<float> first(size, 1.0f), second(size, 2.0f), third(size, 4.0f);
  sum_into_one({first.data(), second.data(), third.data()}, second.data(), 1, count);
  EXPECT_EQ(first, std::vector<float>(size, 1.0f));
  EXPECT_EQ(third, std::vector<float>(size, 4.0f));
  EXPECT_EQ(second.front(), 2.0f);
  EXPECT_EQ(second.back(), 2.0f);
  for (std::size_t i = 1; i + 1 < size; ++i) EXPECT_EQ(second[i], 7.0f);
}

INSTANTIATE_TEST_SUITE_P(Counts, AddTest, testing::Values(0, 1, 2, 15, 16, 17, 1009, 65536));

}  // namespace
}  // namespace babelring
