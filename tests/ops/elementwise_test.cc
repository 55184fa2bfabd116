#include "nmt/ops/elementwise.h"

#include "tests/ops/op_fixture.h"

namespace babelring {
namespace {

class ElementwiseTest : public OpTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, ElementwiseTest, precisions, precision_name);

TEST_P(ElementwiseTest, EqualsReference) {
  for (const Shape shape : {Shape{1}, Shape{13}, Shape{3, 5, 7}, Shape{101, 203}}) {
    const Tensor x = tensors.normal(shape, type());
    for (const DType to : {DType::f32, DType::bf16}) {
      expect_as_reference(Cast{.x = x, .y = tensors.zeros(shape, to)}, {&Cast::y});
    }
    expect_as_reference(Add{.x = x, .y = tensors.normal(shape, type())}, {&Add::y});
    expect_as_reference(Fill{.y = tensors.normal(shape, type()), .value = -2.5f}, {&Fill::y});
  }
}

TEST_P(ElementwiseTest, GatherRowsTakesStridedViews) {
  const Tensor index = tensors.list({4, 0, 4, 10});
  expect_as_reference(
      GatherRows{.x = tensors.strided(11, 7, type()), .index = index, .y = tensors.strided(4, 7, type())},
      {&GatherRows::y});
  expect_as_reference(
      GatherRows{.x = tensors.normal({11, 2}, type()), .index = index, .y = tensors.zeros({4, 2}, type())},
      {&GatherRows::y});
}

TEST(GatherRows, TakesIntegers) {
  Tensors tensors;
  Tensor x = tensors.list({5, 6, 7});
  x = Tensor(x.data, {3, 1}, DType::i32);
  const Tensor y = tensors.zeros({2, 1}, DType::i32);
  make_cpu_backend(1)->run(GatherRows{.x = x, .index = tensors.list({2, 0}), .y = y});
  EXPECT_TRUE(same_bits(y, tensors.list({7, 5})));
}

}  // namespace
}  // namespace babelring
