#include "nmt/checkpoint/finite.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace babelring {
namespace {

constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Finite, NamesTheFirstNonFiniteValue) {
  std::vector<float> gain(10, 1), weight(100 * 200, std::numeric_limits<float>::max());
  const std::vector<NamedTensor> tensors = {{"norm.gain", ConstTensor(gain.data(), {10}, DType::f32)},
                                            {"weight", ConstTensor(weight.data(), {100, 200}, DType::f32)}};
  EXPECT_TRUE(check_finite(tensors));
  weight[200 * 57 + 3] = -infinity;
  EXPECT_EQ(check_finite(tensors).error(), "weight[57, 3] is -inf");
  weight.back() = nan;
  EXPECT_EQ(check_finite(tensors).error(), "weight[57, 3] is -inf");
  gain[9] = nan;
  EXPECT_EQ(check_finite(tensors).error(), "norm.gain[9] is nan");
}

TEST(Finite, FindsAValueAtEveryPosition) {
  std::vector<float> values(9000, 0);
  const std::vector<NamedTensor> tensors = {{"w", ConstTensor(values.data(), {9000}, DType::f32)}};
  for (const std::size_t at : {0UL, 1UL, 4095UL, 4096UL, 8191UL, 8192UL, 8999UL}) {
    values[at] = infinity;
    EXPECT_EQ(check_finite(tensors).error(), fmt::format("w[{}] is inf", at));
    values[at] = 0;
  }
}

TEST(Finite, IgnoresOtherTypes) {
  const std::vector<std::int32_t> ids = {0x7fc00000};
  const std::vector<NamedTensor> tensors = {{"ids", ConstTensor(ids.data(), {1}, DType::i32)}};
  EXPECT_TRUE(check_finite(tensors));
}

}  // namespace
}  // namespace babelring
