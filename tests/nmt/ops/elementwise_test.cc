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

}  // namespace
}  // namespace babelring
