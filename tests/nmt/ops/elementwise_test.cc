#include "nmt/ops/elementwise.h"

#include <cmath>

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

class ActivationTest : public OpTest {
 protected:
  void expect_both_as_reference(const Tensor& z, const Tensor& dy, const DropoutKey& key, double largest = 1e-3) {
    for (const Activation activation : {Activation::swish, Activation::gelu, Activation::swiglu}) {
      const Tensor y = tensors.zeros(z.shape, z.dtype), dz = tensors.zeros(z.shape, z.dtype);
      ActivationForward forward{.z = z, .y = y, .activation = activation, .key = key};
      ActivationBackward backward{.dy = dy, .z = z, .dz = dz, .activation = activation, .key = key};
      if (activation == Activation::swiglu) {
        forward.up = backward.up = tensors.strided(z.rows(), z.columns(), z.dtype);
        backward.dup = tensors.strided(z.rows(), z.columns(), z.dtype);
        expect_as_reference(backward, {&ActivationBackward::dup}, largest);
      }
      expect_as_reference(forward, {&ActivationForward::y}, largest);
      expect_as_reference(backward, {&ActivationBackward::dz}, largest);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, ActivationTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, ActivationTest, gpu_precisions, precision_name);

TEST_P(ActivationTest, EqualsReference) {
  for (const Shape shape : {Shape{1, 1}, Shape{3, 7}, Shape{17, 255}, Shape{5, 257}, Shape{100, 512}, Shape{2, 4099}}) {
    for (const float probability : {0.0f, 0.3f}) {
      DropoutKey with = tested_key;
      with.probability = probability;
      expect_both_as_reference(tensors.normal(shape, type(), 3), tensors.normal(shape, type()), with);
    }
  }
}

TEST_P(ActivationTest, TakesAndWritesStridedViewsInPlace) {
  for (const Activation activation : {Activation::swish, Activation::gelu}) {
    const Tensor z = tensors.strided(9, 70, type()), dy = tensors.strided(9, 70, type());
    expect_both_as_reference(z, dy, tested_key);
    expect_as_reference(ActivationBackward{.dy = dy, .z = z, .dz = dy, .activation = activation, .key = tested_key},
                        {&ActivationBackward::dz});
    expect_as_reference(ActivationForward{.z = z, .y = z, .activation = activation, .key = tested_key},
                        {&ActivationForward::y});
  }
}

/// The gate and what it multiplies are columns of one product, and so are their gradients.
TEST_P(ActivationTest, SwigluTakesBothHalvesOfAProduct) {
  for (const std::int64_t width : {1, 7, 24, 512}) {
    const Tensor product = tensors.normal({19, 2 * width}, type(), 2),
                 dproduct = tensors.zeros({19, 2 * width}, type());
    const Tensor y = tensors.zeros({19, width}, type()), dy = tensors.normal({19, width}, type());
    expect_as_reference(ActivationForward{.z = product.column_slice(0, width),
                                          .y = y,
                                          .activation = Activation::swiglu,
                                          .key = tested_key,
                                          .up = product.column_slice(width, width)},
                        {&ActivationForward::y});
    ActivationBackward backward{.dy = dy,
                                .z = product.column_slice(0, width),
                                .dz = dproduct.column_slice(0, width),
                                .activation = Activation::swiglu,
                                .key = tested_key,
                                .up = product.column_slice(width, width),
                                .dup = dproduct.column_slice(width, width)};
    expect_as_reference(backward, {&ActivationBackward::dz, &ActivationBackward::dup});
    const Tensor dz = tensors.copy(backward.dz), dup = tensors.copy(backward.dup);
    backward.dz = product.column_slice(0, width), backward.dup = product.column_slice(width, width);
    tested->run(backward);  // in place
    EXPECT_TRUE(same_bits(tensors.copy(backward.dz), dz));
    EXPECT_TRUE(same_bits(tensors.copy(backward.dup), dup));
  }
}

/// Far from 0 the activations are 0 or z; between, each element alone is as exact as its type, in both tails.
TEST_P(ActivationTest, IsExactElementByElement) {
  for (int step = -34; step <= 34; ++step) {
    const Tensor z = tensors.zeros({1, 1}, type()), dy = tensors.zeros({1, 1}, type());
    reference::store(reference::Matrix(1, 1, 0.35 * step), z);
    tested->run(Fill{.y = dy, .value = 1});
    expect_both_as_reference(z, dy, {}, 1e-30);
  }
  const Tensor far = tensors.zeros({1, 4}, type()), ones = tensors.zeros({1, 4}, type());
  reference::Matrix values(1, 4);
  values.values = {-1e30, -90, 90, 1e30};
  reference::store(values, far);
  tested->run(Fill{.y = ones, .value = 1});
  expect_both_as_reference(far, ones, {});
}

TEST_P(ActivationTest, NanStaysNan) {
  for (const Activation activation : {Activation::swish, Activation::gelu}) {
    const Tensor z = tensors.zeros({1, 3}, type()), y = tensors.zeros({1, 3}, type());
    tested->run(Fill{.y = z, .value = NAN});
    tested->run(ActivationForward{.z = z, .y = y, .activation = activation, .key = {}});
    for (const double value : reference::load(y).values) EXPECT_TRUE(std::isnan(value));
    tested->run(Fill{.y = y, .value = 1});
    tested->run(ActivationBackward{.dy = y, .z = z, .dz = y, .activation = activation, .key = {}});
    for (const double value : reference::load(y).values) EXPECT_TRUE(std::isnan(value));
  }
}

/// Each row has the same bits in a whole batch and in a part of it, with any number of threads.
TEST_P(ActivationTest, RowsAreGlobal) {
  const Tensor z = tensors.normal({20, 70}, type()), dy = tensors.normal({20, 70}, type());
  const Tensor whole = tensors.zeros({20, 70}, type()), part = tensors.zeros({8, 70}, type());
  DropoutKey later = tested_key;
  later.first_row += 12;
  tested->run(ActivationForward{.z = z, .y = whole, .key = tested_key});
  another_backend(1)->run(ActivationForward{.z = z.row_slice(12, 8), .y = part, .key = later});
  EXPECT_TRUE(same_bits(whole.row_slice(12, 8), part));
  tested->run(ActivationBackward{.dy = dy, .z = z, .dz = whole, .key = tested_key});
  another_backend(1)->run(
      ActivationBackward{.dy = dy.row_slice(12, 8), .z = z.row_slice(12, 8), .dz = part, .key = later});
  EXPECT_TRUE(same_bits(whole.row_slice(12, 8), part));
}

}  // namespace

}  // namespace babelring
