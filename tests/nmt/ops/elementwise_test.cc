#include "nmt/ops/elementwise.h"

#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

class ElementwiseTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ElementwiseTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ElementwiseTest, gpu_precisions, precision_name);

TEST_P(ElementwiseTest, EqualsReference) {
  for (const Shape shape : {Shape{1}, Shape{13}, Shape{3, 5, 7}, Shape{101, 203}}) {
    const Tensor x = tensors.normal(shape, type());
    for (const DType to : {DType::f32, DType::bf16}) {
      expect_as_reference(Cast{.x = x, .y = tensors.zeros(shape, to)}, {&Cast::y});
    }
    expect_as_reference(Add{.x = x, .y = tensors.normal(shape, type())}, {&Add::y});
    for (const float value : {-2.5f, 0.0f}) {
      expect_as_reference(Fill{.y = tensors.normal(shape, type()), .value = value}, {&Fill::y});
    }
  }
}

class DropoutTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, DropoutTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, DropoutTest, gpu_precisions, precision_name);

const DropoutKey tested_key{.key = 0x1234, .first_row = 5, .probability = 0.3f};

TEST_P(DropoutTest, EqualsReference) {
  for (const Shape shape : {Shape{1, 1}, Shape{3, 7}, Shape{17, 255}, Shape{5, 257}, Shape{100, 512}, Shape{2, 4099}}) {
    for (const float probability : {0.0f, 0.1f, 0.5f, 0.99999f}) {
      DropoutKey with = tested_key;
      with.probability = probability;
      const Tensor x = tensors.normal(shape, type()), y = tensors.zeros(shape, type());
      expect_as_reference(Dropout{.x = x, .y = y, .key = with}, {&Dropout::y});
      expect_as_reference(ResidualDropout{.residual = tensors.normal(shape, type()), .branch = x, .y = y, .key = with},
                          {&ResidualDropout::y});
      expect_as_reference(Dropout{.x = x, .y = x, .key = with}, {&Dropout::y});
    }
  }
}

TEST_P(DropoutTest, TakesAndWritesStridedViews) {
  const Tensor x = tensors.strided(9, 70, type());
  expect_as_reference(Dropout{.x = x, .y = tensors.strided(9, 70, type()), .key = tested_key}, {&Dropout::y});
  expect_as_reference(Dropout{.x = x, .y = x, .key = tested_key}, {&Dropout::y});
}

TEST_P(DropoutTest, KeepsAndScalesTheRightShare) {
  const Tensor ones = tensors.zeros({400, 500}, type()), y = tensors.zeros({400, 500}, type());
  tested->run(Fill{.y = ones, .value = 1});
  tested->run(Dropout{.x = ones, .y = y, .key = tested_key});
  const auto values = reference::load(y).values;
  const double kept =
      static_cast<double>(values.size()) - static_cast<double>(std::count(values.begin(), values.end(), 0.0));
  EXPECT_NEAR(kept / static_cast<double>(values.size()), 0.7, 0.005);
  double total = 0;
  for (const double value : values) total += value;
  EXPECT_NEAR(total / static_cast<double>(values.size()), 1.0, 0.01);
}

TEST_P(DropoutTest, MaskIsTheSameInBackwardAndDiffersWithTheKey) {
  const Tensor x = tensors.normal({9, 300}, type()), dy = tensors.normal({9, 300}, type());
  const Tensor y = tensors.zeros({9, 300}, type()), dx = tensors.zeros({9, 300}, type());
  tested->run(Dropout{.x = x, .y = y, .key = tested_key});
  tested->run(Dropout{.x = dy, .y = dx, .key = tested_key});
  DropoutKey other = tested_key;
  other.key += 1;
  const Tensor z = tensors.zeros({9, 300}, type());
  tested->run(Dropout{.x = x, .y = z, .key = other});
  int differing = 0;
  const auto forward = reference::load(y).values, backward = reference::load(dx).values,
             with_other = reference::load(z).values;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    EXPECT_EQ(forward[i] == 0, backward[i] == 0) << "element " << i;
    differing += (forward[i] == 0) != (with_other[i] == 0);
  }
  EXPECT_GT(differing, 800);
}

/// Bits belong to the global row: a part of a batch, told where it begins, drops what the whole would.
TEST_P(DropoutTest, RowsAreGlobal) {
  const Tensor x = tensors.normal({20, 64}, type()), whole = tensors.zeros({20, 64}, type());
  const Tensor part = tensors.zeros({8, 64}, type());
  tested->run(Dropout{.x = x, .y = whole, .key = tested_key});
  DropoutKey later = tested_key;
  later.first_row += 12;
  tested->run(Dropout{.x = x.row_slice(12, 8), .y = part, .key = later});
  EXPECT_TRUE(same_bits(whole.row_slice(12, 8), part));
}

}  // namespace

}  // namespace babelring
