#include "nmt/core/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace babelring {
namespace {

TEST(DropoutKey, DropsTheRequestedFraction) {
  for (const float probability : {0.1f, 0.3f, 0.5f}) {
    const DropoutKey key{.key = 42, .probability = probability};
    int dropped = 0;
    constexpr int rows = 400, columns = 501;
    for (int row = 0; row < rows; ++row) {
      const std::uint32_t row_key = key.row_key(row);
      for (std::uint32_t column = 0; column < columns; ++column)
        dropped += DropoutKey::bits(row_key, column) < key.threshold();
    }
    const double expected = probability * rows * columns;
    EXPECT_NEAR(dropped, expected, 5 * std::sqrt(expected * (1 - probability))) << probability;
    EXPECT_NEAR(key.scale(), 1 / (1 - probability), 1e-4);
  }
}

TEST(DropoutKey, BitsDependOnTheGlobalRow) {
  const DropoutKey whole{.key = 7, .first_row = 0, .probability = 0.5f};
  const DropoutKey part{.key = 7, .first_row = 100, .probability = 0.5f};
  EXPECT_EQ(whole.row_key(123), part.row_key(23));
  EXPECT_NE(whole.row_key(23), part.row_key(23));
}

TEST(DropoutKey, NeighbouringColumnsRowsAndKeysAreUncorrelated) {
  const auto correlation = [](auto bits_a, auto bits_b) {
    double sum = 0;
    constexpr int n = 100000;
    for (int i = 0; i < n; ++i) {
      sum += (bits_a(i) < 32768U ? 1.0 : -1.0) * (bits_b(i) < 32768U ? 1.0 : -1.0);
    }
    return std::abs(sum / n) * std::sqrt(static_cast<double>(n));  // standard deviations
  };
  const DropoutKey key{.key = 1}, other{.key = 2};
  const auto at = [](const DropoutKey& k, int row, int column) {
    return DropoutKey::bits(k.row_key(row), static_cast<std::uint32_t>(column));
  };
  EXPECT_LT(correlation([&](int i) { return at(key, 0, i); }, [&](int i) { return at(key, 0, i + 1); }), 5);
  EXPECT_LT(correlation([&](int i) { return at(key, i, 0); }, [&](int i) { return at(key, i + 1, 0); }), 5);
  EXPECT_LT(correlation([&](int i) { return at(key, 3, i); }, [&](int i) { return at(other, 3, i); }), 5);
}

TEST(Random, UniformAndNormalMoments) {
  Random random(3);
  double uniform = 0, normal = 0, square = 0;
  constexpr int n = 100000;
  for (int i = 0; i < n; ++i) {
    uniform += random.uniform();
    const double x = random.normal();
    normal += x;
    square += x * x;
  }
  EXPECT_NEAR(uniform / n, 0.5, 0.005);
  EXPECT_NEAR(normal / n, 0, 0.02);
  EXPECT_NEAR(square / n, 1, 0.03);
}

TEST(Random, BelowReachesEveryValue) {
  Random random(4);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random.below(7));
  EXPECT_EQ(seen.size(), 7U);
  EXPECT_EQ(*seen.rbegin(), 6U);
}

}  // namespace
}  // namespace babelring
