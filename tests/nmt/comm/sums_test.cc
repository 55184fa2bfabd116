#include "nmt/comm/sums.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nmt/core/random.h"

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

using testing::Each;

std::vector<float> some_values(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) {
    value = static_cast<float>((random.uniform() * 2 - 1) * std::exp(8 * random.uniform()));
  }
  return values;
}

/// Values that are sent in turn, with the errors that their sender keeps.
struct Sender {
  explicit Sender(std::int64_t count) : errors(static_cast<std::size_t>(count)) {}
  /// The values that a receiver gets.
  std::vector<float> send(const std::vector<float>& values) {
    const std::int64_t count = std::ssize(values);
    std::vector<std::byte> message(static_cast<std::size_t>(int8_message_bytes(count)) + 1, std::byte{0x5a});
    encode_int8(values.data(), errors.data(), count, message.data());
    EXPECT_EQ(message.back(), std::byte{0x5a}) << "written past the end of the message";
    std::vector<float> received(values.size(), 7), added(values.size(), 1);
    decode_int8(message.data(), count, received.data());
    decode_and_add_int8(message.data(), count, added.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_TRUE(std::isnan(received[i]) ? std::isnan(added[i]) : added[i] == 1 + received[i]) << i;
    }
    return received;
  }
  std::vector<float> errors;
};

/// The largest magnitude in the block of element `i`.
float largest_in_block(const std::vector<float>& values, std::size_t i) {
  const std::size_t begin = i / int8_block * int8_block;
  float largest = 0;
  for (std::size_t j = begin; j < std::min(values.size(), begin + int8_block); ++j) {
    largest = std::max(largest, std::abs(values[j]));
  }
  return largest;
}

class Int8BlocksTest : public testing::TestWithParam<std::int64_t> {};

TEST_P(Int8BlocksTest, RoundsByAtMostHalfAStepAndKeepsTheError) {
  const std::vector<float> values = some_values(GetParam(), 1);
  Sender sender(GetParam());
  const std::vector<float> received = sender.send(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float half_step = largest_in_block(values, i) / 254;
    EXPECT_LE(std::abs(received[i] - values[i]), 1.0001f * half_step) << i;
    EXPECT_EQ(sender.errors[i], values[i] - received[i]) << i;
  }
}

TEST_P(Int8BlocksTest, SumsOverManyUpdatesMissTheLastErrorsOnly) {
  const std::vector<float> values = some_values(GetParam(), 2);
  Sender sender(GetParam());
  std::vector<double> sums(values.size());
  constexpr int updates = 100;
  for (int update = 0; update < updates; ++update) {
    const std::vector<float> received = sender.send(values);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(received[i]);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // Half a step of the values with their errors, which enlarge them by 1/254 at most, and f32's rounding.
    const double largest = static_cast<double>(largest_in_block(values, i));
    EXPECT_NEAR(sums[i], updates * static_cast<double>(values[i]), largest * (1.01 / 254 + updates * 3e-7)) << i;
  }
}

TEST_P(Int8BlocksTest, SendsTheExtremesExactly) {
  std::vector<float> values(static_cast<std::size_t>(GetParam()), 12.7f);
  for (std::size_t i = 0; i < values.size(); i += 3) values[i] = -12.7f;
  Sender sender(GetParam());
  const std::vector<float> received = sender.send(values);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_FLOAT_EQ(received[i], values[i]);
}

INSTANTIATE_TEST_SUITE_P(Counts, Int8BlocksTest, testing::Values(0, 1, 2, 31, 255, 256, 257, 511, 512, 1000, 12345));

TEST(Int8Blocks, ABlockThatIsNotFiniteIsNanAndNoOtherIs) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    std::vector<float> values(600, 1.0f);
    values[300] = bad;
    Sender sender(600);
    sender.errors[310] = 0.25f;
    const std::vector<float> received = sender.send(values);
    for (std::size_t i = 0; i < 600; ++i) {
      const bool in_bad_block = i >= 256 && i < 512;
      EXPECT_EQ(std::isnan(received[i]), in_bad_block) << i;
      EXPECT_EQ(sender.errors[i], i == 310 ? 0.25f : 0.0f) << i;
    }
    values[300] = 1;
    EXPECT_EQ(sender.send(values)[0], 1.0f);
  }
}

TEST(Int8Blocks, ASumThatOverflowsIsNotFinite) {
  Sender sender(3);
  sender.errors = {std::numeric_limits<float>::max(), 0, 0};
  EXPECT_TRUE(std::isnan(sender.send({std::numeric_limits<float>::max(), 1, 1})[1]));
}

TEST(Int8Blocks, ZerosAndTheSmallestNumbersAreSentAsZerosAndKept) {
  Sender sender(256);
  EXPECT_THAT(sender.send(std::vector<float>(256, 0.0f)), Each(0.0f));
  EXPECT_THAT(sender.errors, Each(0.0f));
  EXPECT_THAT(sender.send(std::vector<float>(256, 1e-38f)), Each(0.0f));
  EXPECT_THAT(sender.errors, Each(1e-38f));
}

TEST(GradientWireTest, SaysHowManyElementsAMessageHolds) {
  EXPECT_EQ(wire_bytes(GradientWire::f32, 1000), 4000);
  EXPECT_EQ(wire_bytes(GradientWire::bf16, 1000), 2000);
  EXPECT_EQ(wire_bytes(GradientWire::int8, 1000), 1000 + 4 * 4);
  EXPECT_EQ(elements_in_message(GradientWire::f32, 60 * 1024), 15'360);
  EXPECT_EQ(elements_in_message(GradientWire::bf16, 60 * 1024), 30'720);
  EXPECT_EQ(elements_in_message(GradientWire::int8, 60 * 1024), 236 * 256);
  EXPECT_EQ(elements_in_message(GradientWire::int8, 259), 0);
  EXPECT_EQ(name_of(GradientWire::int8), "int8");
}

}  // namespace

}  // namespace babelring
