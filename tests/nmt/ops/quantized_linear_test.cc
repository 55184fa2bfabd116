#include "nmt/ops/linear.h"

#include <gmock/gmock.h>

#include <limits>
#include <span>

#include "base/failure.h"
#include "nmt/ops/embedding.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

using testing::ThrowsMessage;

class QuantizedLinearTest : public OpTest {
 protected:
  /// Multiplies some outputs of a weight by rows of x, with all that the op can do.
  QuantizedLinear op_of(const QuantizedCopy& weight, std::int64_t rows, std::int64_t first, std::int64_t count) {
    return {.x = tensors.normal({rows, weight.weight.shape[1]}, DType::f32),
            .weight = weight.weight,
            .first = first,
            .bias = tensors.normal({count}, DType::f32, 5),
            .y = tensors.zeros({rows, count}, DType::f32)};
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, QuantizedLinearTest, testing::Values(Precision{DType::f32, 3e-5}), precision_name);

/// Every number of rows in a block, outputs and inputs on both sides of a panel's and a step's.
TEST_P(QuantizedLinearTest, EqualsReference) {
  struct Sizes {
    std::int64_t rows, in, out;
  };
  for (const auto& [rows, in, out] :
       {Sizes{1, 1, 1}, Sizes{2, 3, 5}, Sizes{3, 16, 16}, Sizes{4, 31, 63}, Sizes{5, 64, 64}, Sizes{7, 33, 67},
        Sizes{63, 64, 17}, Sizes{131, 67, 257}, Sizes{50, 2085, 99}, Sizes{0, 8, 8}}) {
    const QuantizedCopy weight = quantize(tensors.normal({out, in}, DType::f32), "weight");
    QuantizedLinear op = op_of(weight, rows, 0, out);
    expect_as_reference(op, {&QuantizedLinear::y});
    op.activation = Activation::relu;
    expect_as_reference(op, {&QuantizedLinear::y});
    op.bias = {};
    expect_as_reference(op, {&QuantizedLinear::y});
  }
}

TEST_P(QuantizedLinearTest, TakesSomeOutputsAndStridedViews) {
  const QuantizedCopy weight = quantize(tensors.normal({200, 24}, DType::f32), "weight");
  for (const std::int64_t first : {0, 7, 64, 100, 199}) {
    for (const std::int64_t count : {1, 16, 60, 100}) {
      if (first + count > 200) continue;
      const Tensor whole = tensors.normal({9, 200}, DType::f32), before = tensors.copy(whole);
      QuantizedLinear op = op_of(weight, 9, first, count);
      op.x = tensors.strided(9, 24, DType::f32);
      op.y = whole.column_slice(50, count);
      expect_as_reference(op, {&QuantizedLinear::y});
      EXPECT_EQ(relative_error(whole.column_slice(0, 50), before.column_slice(0, 50)), 0);
      const std::int64_t end = 50 + count;
      EXPECT_EQ(relative_error(whole.column_slice(end, 200 - end), before.column_slice(end, 200 - end)), 0);
    }
  }
}

/// The bound of the header, for rows of x and W whose largest element is far above the others, too.
TEST_P(QuantizedLinearTest, DiffersFromTheProductByNoMoreThanTheRounding) {
  const std::int64_t rows = 20, in = 100, out = 70;
  const Tensor x = tensors.normal({rows, in}, DType::f32), weight = tensors.normal({out, in}, DType::f32);
  for (std::int64_t row = 0; row < rows; row += 3) x.as<float>()[row * in + row] = 1e6f;
  for (std::int64_t row = 0; row < out; row += 4) weight.as<float>()[row * in + row] = -3e4f;
  for (std::int64_t i = 0; i < in; ++i) x.as<float>()[in + i] *= 1e-20f, weight.as<float>()[in + i] *= 1e-10f;
  const QuantizedCopy quantized = quantize(weight, "weight");
  const Tensor y = tensors.zeros({rows, out}, DType::f32);
  tested->run(QuantizedLinear{.x = x, .weight = quantized.weight, .bias = {}, .y = y});
  const reference::Matrix a = reference::load(x), b = reference::load(weight), found = reference::load(y);
  const auto largest = [](const reference::Matrix& m, std::int64_t row) {
    double most = 0;
    for (std::int64_t i = 0; i < m.columns; ++i) most = std::max(most, std::abs(m(row, i)));
    return most;
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t output = 0; output < out; ++output) {
      const double x_scale = largest(a, row) / 127, scale = largest(b, output) / 127;
      double exact = 0, bound = 0, magnitude = 0;
      for (std::int64_t i = 0; i < in; ++i) {
        exact += a(row, i) * b(output, i);
        magnitude += std::abs(a(row, i) * b(output, i));
        bound += std::abs(a(row, i)) * scale / 2 + std::abs(b(output, i)) * x_scale / 2 + x_scale * scale / 4;
      }
      EXPECT_LE(std::abs(found(row, output) - exact), bound + 1e-5 * magnitude) << row << ", " << output;
    }
  }
}

TEST_P(QuantizedLinearTest, ARowDoesNotDependOnTheOthersNorOnThreads) {
  const std::int64_t rows = 97, in = 150, out = 200;
  const QuantizedCopy weight = quantize(tensors.normal({out, in}, DType::f32), "weight");
  const QuantizedLinear together = op_of(weight, rows, 0, out);
  tested->run(together);
  const auto alone = another_backend(1);
  for (std::int64_t first = 0, count = 1; first + count <= rows; first += count++) {
    QuantizedLinear some = together;
    some.x = together.x.row_slice(first, count);
    some.y = tensors.zeros({count, out}, DType::f32);
    alone->run(some);
    EXPECT_TRUE(same_bits(some.y, together.y.row_slice(first, count))) << "rows from " << first;
  }
}

TEST_P(QuantizedLinearTest, RowsOfZerosGiveTheBiasAndThoseThatAreNotFiniteNaN) {
  const Tensor weight = tensors.normal({3, 5}, DType::f32);
  std::fill_n(weight.as<float>() + 5, 5, 0.0f);
  const QuantizedCopy quantized = quantize(weight, "weight");
  const QuantizedLinear op = op_of(quantized, 4, 0, 3);
  auto* x = const_cast<float*>(op.x.as<float>());
  std::fill_n(x, 5, 0.0f);
  x[7] = std::numeric_limits<float>::infinity();
  x[11] = std::numeric_limits<float>::quiet_NaN();
  tested->run(op);
  const auto *y = op.y.as<float>(), *bias = op.bias.as<float>();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(y[i], bias[i]);
    EXPECT_TRUE(std::isnan(y[3 + i]) && std::isnan(y[6 + i]));
    EXPECT_FALSE(std::isnan(y[9 + i]));
  }
  EXPECT_EQ(y[10], bias[1]);
}

TEST_P(QuantizedLinearTest, AnEmbeddingReadsRowsOfAQuantizedTable) {
  const QuantizedCopy table = quantize(tensors.normal({70, 37}, DType::f32), "table");
  const EmbeddingForward op{.ids = tensors.list({0, 69, 64, 3, 3}),
                            .positions = tensors.list({0, 1, 2, 3, 4}),
                            .table = {},
                            .y = tensors.zeros({5, 37}, DType::f32),
                            .scale = 6,
                            .quantized = table.weight};
  expect_as_reference(op, {&EmbeddingForward::y});
}

TEST_P(QuantizedLinearTest, RefusesWhatDoesNotFit) {
  const QuantizedCopy weight = quantize(tensors.normal({5, 3}, DType::f32), "weight");
  const auto message_of = [&](const QuantizedLinear& op) -> std::string {
    try {
      tested->run(op);
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "accepted";
  };
  QuantizedLinear op = op_of(weight, 4, 3, 2);
  op.first = 4;
  EXPECT_EQ(message_of(op), "quantized_linear: y has outputs 4 to 6, weight [5, 3] has 5");
  op = op_of(weight, 4, 0, 5);
  op.x = tensors.normal({4, 2}, DType::f32);
  EXPECT_EQ(message_of(op), "quantized_linear: x has shape [4, 2], weight [5, 3] needs [4, 3]");
  op.x = tensors.normal({4, 3}, DType::bf16);
  EXPECT_EQ(message_of(op), "quantized_linear: x is bf16, f32 is needed");
  op.weight.scales = {};
  EXPECT_EQ(message_of(op), "quantized_linear: scales is absent");
}

TEST(Quantize, RefusesAWeightThatIsNotFiniteOrTooWide) {
  Tensors tensors;
  const Tensor weight = tensors.normal({5, 3}, DType::f32);
  weight.as<float>()[7] = -std::numeric_limits<float>::infinity();
  EXPECT_THAT([&] { quantize(weight, "encoder.0.attention.qkv.weight"); },
              ThrowsMessage<Failure>("encoder.0.attention.qkv.weight: [2, 1] is -inf, int8 needs finite weights"));
  const Tensor wide = tensors.zeros({1, max_quantized_inputs + 1}, DType::f32);
  EXPECT_THAT([&] { quantize(wide, "w"); }, ThrowsMessage<Failure>("w: has 131073 inputs, int8 takes at most 131072"));
}

TEST(Quantize, RoundsToTheNearestAndKeepsTheLargest) {
  Tensors tensors;
  const Tensor weight = tensors.zeros({2, 5}, DType::f32);
  const float rows[] = {-254, 1, 3, 5.1f, 127, 1e-31f, 0, 0, 0, 0};
  std::copy(std::begin(rows), std::end(rows), weight.as<float>());
  const QuantizedCopy copy = quantize(weight, "weight");
  std::vector<int> found;
  for (std::int64_t i = 0; i < 5; ++i) {
    found.push_back(copy.weight.elements.as<std::int8_t>()[copy.weight.place(0, i)]);
  }
  EXPECT_EQ(found, (std::vector<int>{-127, 0, 2, 3, 64}));
  EXPECT_EQ(copy.weight.scales.as<float>()[0], 2);
  EXPECT_EQ(copy.weight.scales.as<float>()[1], 0);
  EXPECT_EQ(copy.weight.sums.as<std::int32_t>()[0], -58);
}

}  // namespace
}  // namespace babelring
