#include "nmt/ops/cuda/matmul_shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "nmt/core/random.h"

namespace babelring::cuda {
namespace {

std::vector<float> some_values(std::int64_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

/// The meaning of a matmul of this shape, in the words of its declaration.
void multiply(const MatmulShape& s, const float* a, const float* b, float* c) {
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < s.k; ++l) {
        sum +=
            static_cast<double>(a[i * s.a_row + l * s.a_column]) * static_cast<double>(b[l * s.b_row + j * s.b_column]);
      }
      c[i * s.c_row + j] = static_cast<float>(sum);
    }
  }
}

class MatmulShapes : public testing::Test {
 protected:
  static constexpr std::int64_t rows = 3, in = 4, out = 5;
  std::vector<float> x = some_values(rows * 2 * in, 1), weight = some_values(out * in, 2);
  std::vector<float> dy = some_values(rows * 2 * out, 3);
  /// Columns of a wider matrix.
  Tensor x_view() { return Tensor(x.data(), {rows, 2 * in}, DType::f32).column_slice(in, in); }
  Tensor dy_view() { return Tensor(dy.data(), {rows, 2 * out}, DType::f32).column_slice(0, out); }
  Tensor weight_view() { return Tensor(weight.data(), {out, in}, DType::f32); }
};

TEST_F(MatmulShapes, ForwardIsXTimesTheTransposedWeight) {
  std::vector<float> y(rows * out);
  const Tensor result(y.data(), {rows, out}, DType::f32);
  multiply(forward_matmul(x_view(), weight_view(), result), x_view().as<float>(), weight.data(), y.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o) {
      float sum = 0;
      for (std::int64_t i = 0; i < in; ++i) {
        sum += x[static_cast<std::size_t>(r * 2 * in + in + i)] * weight[static_cast<std::size_t>(o * in + i)];
      }
      EXPECT_NEAR(y[static_cast<std::size_t>(r * out + o)], sum, 1e-5);
    }
  }
}

TEST_F(MatmulShapes, BackwardDataIsDyTimesTheWeight) {
  std::vector<float> dx(rows * in);
  const Tensor result(dx.data(), {rows, in}, DType::f32);
  multiply(data_gradient_matmul(dy_view(), weight_view(), result), dy.data(), weight.data(), dx.data());
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < in; ++i) {
      float sum = 0;
      for (std::int64_t o = 0; o < out; ++o) {
        sum += dy[static_cast<std::size_t>(r * 2 * out + o)] * weight[static_cast<std::size_t>(o * in + i)];
      }
      EXPECT_NEAR(dx[static_cast<std::size_t>(r * in + i)], sum, 1e-5);
    }
  }
}

TEST_F(MatmulShapes, BackwardWeightIsTheTransposedDyTimesX) {
  std::vector<float> dweight(out * in);
  const Tensor result(dweight.data(), {out, in}, DType::f32);
  multiply(weight_gradient_matmul(dy_view(), x_view(), result), dy.data(), x_view().as<float>(), dweight.data());
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      float sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) {
        sum += dy[static_cast<std::size_t>(r * 2 * out + o)] * x[static_cast<std::size_t>(r * 2 * in + in + i)];
      }
      EXPECT_NEAR(dweight[static_cast<std::size_t>(o * in + i)], sum, 1e-5);
    }
  }
}

TEST_F(MatmulShapes, TheKeyHoldsAllThatTheChoiceOfAnAlgorithmDependsOn) {
  const MatmulShape shape = forward_matmul(x_view(), weight_view(), dy_view());
  std::vector<MatmulShape> others(12, shape);
  others[0].m += 1;
  others[1].a_row += 1;
  others[2].type = DType::bf16;
  others[3].c_type = DType::bf16;
  others[4].accumulate = true;
  others[5].epilogue = Epilogue::bias_relu;
  others[6].a_alignment = 2;
  others[7].c_alignment = 2;
  others[8].batch = 2;
  others[9].b_batch = 7;
  others[10].varying = Varying::none;
  others[11].bias_alignment = 16;
  std::unordered_set<MatmulShape, MatmulShapeHash> keys = {shape};
  std::unordered_set<std::size_t> hashes = {MatmulShapeHash()(shape)};
  for (const MatmulShape& other : others) {
    EXPECT_TRUE(keys.insert(other).second);
    EXPECT_TRUE(hashes.insert(MatmulShapeHash()(other)).second);
  }
  EXPECT_FALSE(keys.insert(shape).second);
}

TEST_F(MatmulShapes, SayWhatTheyAre) {
  const MatmulShape forward = forward_matmul(x_view(), weight_view(), dy_view());
  EXPECT_EQ(text_of(forward), "x W^T 3x5x4 f32");
  EXPECT_EQ(text_of(data_gradient_matmul(dy_view(), weight_view(), x_view())), "dy W 3x4x5 f32");
  EXPECT_EQ(text_of(weight_gradient_matmul(dy_view(), x_view(), weight_view())), "dy^T x 5x4x3 f32");
  EXPECT_EQ(text_of(MatmulShape{.m = 1, .n = 2, .k = 3, .batch = 7, .type = DType::bf16}),
            "a b 1x2x3 bf16, batch of 7");
}

TEST(BucketedRows, ArePowersOfTwoUpTo256AndItsMultiplesAbove) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> expected = {
      {0, 0}, {1, 16}, {16, 16}, {17, 32}, {129, 256}, {256, 256}, {257, 512}, {512, 512}, {25000, 25088}};
  for (const auto& [rows, bucket] : expected) EXPECT_EQ(bucketed_rows(rows), bucket) << rows;
}

TEST(ChoiceShape, RoundsTheVaryingExtentAlone) {
  const auto rounded = [](Varying varying) {
    return choice_shape({.m = 300, .n = 300, .k = 300, .batch = 300, .varying = varying});
  };
  const MatmulShape none = rounded(Varying::none);
  EXPECT_EQ(none.m + none.n + none.k + none.batch, 1200);
  EXPECT_EQ(rounded(Varying::m).m, 512);
  EXPECT_EQ(rounded(Varying::m).k, 300);
  EXPECT_EQ(rounded(Varying::k).k, 512);
  EXPECT_EQ(rounded(Varying::k).m, 300);
  EXPECT_EQ(rounded(Varying::batch).batch, 512);
  EXPECT_EQ(choice_shape({.batch = 1, .varying = Varying::batch}).batch, 1);
}

/// Few choices for many rows, and none for a number far from its own.
TEST(ChoiceShape, HasAtMostASixteenthMoreRowsAboveAFewThousand) {
  std::unordered_set<std::int64_t> choices;
  for (std::int64_t rows = 1; rows <= 70000; ++rows) {
    const std::int64_t chosen = choice_shape({.m = rows, .varying = Varying::m}).m;
    ASSERT_GE(chosen, rows);
    ASSERT_LE(chosen, std::max(rows * 2 + 15, rows + 255));
    if (rows > 4096) {
      ASSERT_LE(chosen, rows + rows / 16 + 1) << rows;
    }
    ASSERT_EQ(choice_shape({.m = chosen, .varying = Varying::m}).m, chosen);
    choices.insert(chosen);
  }
  EXPECT_LE(choices.size(), 90U);
}

TEST(AlignmentOf, IsWhatDividesAddressRowsAndBatches) {
  const auto address = [](std::uintptr_t place) { return reinterpret_cast<const void*>(place); };
  EXPECT_EQ(alignment_of(address(256), 64, 0), 16);
  EXPECT_EQ(alignment_of(address(264), 64, 0), 8);
  EXPECT_EQ(alignment_of(address(256), 10, 0), 2);
  EXPECT_EQ(alignment_of(address(256), 64, 100), 4);
  EXPECT_EQ(alignment_of(address(0x1200), 0, 0, 256), 256);
  EXPECT_EQ(alignment_of(address(0x1280), 0, 0, 256), 128);
}

}  // namespace
}  // namespace babelring::cuda
