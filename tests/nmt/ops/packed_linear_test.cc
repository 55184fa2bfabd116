#include "base/failure.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

class PackedLinearTest : public OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (!IsSkipped() && tested->pack(tensors.normal({3, 5}, type())) == nullptr) {
      GTEST_SKIP() << tested->description() << " packs no " << name_of(type());
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, PackedLinearTest, precisions, precision_name);

/// Every number of rows in a block, outputs and inputs on both sides of a panel's, and more than one pass over inputs.
TEST_P(PackedLinearTest, EqualsReference) {
  struct Sizes {
    std::int64_t rows, in, out;
  };
  for (const auto& [rows, in, out] :
       {Sizes{1, 1, 1}, Sizes{2, 3, 5}, Sizes{3, 16, 16}, Sizes{4, 31, 63}, Sizes{5, 64, 64}, Sizes{7, 33, 67},
        Sizes{63, 64, 17}, Sizes{131, 67, 257}, Sizes{50, 2085, 99}, Sizes{0, 8, 8}}) {
    const Tensor weight = tensors.normal({out, in}, type());
    const auto packed = tested->pack(weight);
    LinearForward op{.x = tensors.normal({rows, in}, type()),
                     .weight = weight,
                     .bias = {},
                     .y = tensors.zeros({rows, out}, type()),
                     .packed = packed.get()};
    expect_as_reference(op, {&LinearForward::y});
    op.bias = tensors.normal({out}, DType::f32, 5);
    op.activation = Activation::relu;
    expect_as_reference(op, {&LinearForward::y});
    op.y = tensors.zeros({rows, out}, DType::f32);
    expect_as_reference(op, {&LinearForward::y});
  }
}

TEST_P(PackedLinearTest, TakesRowsOfAWeightAndStridedViews) {
  const Tensor whole = tensors.normal({70, 120}, type()), before = tensors.copy(whole);
  const ConstTensor weight = tensors.normal({100, 24}, type()).row_slice(30, 40);
  const auto packed = tested->pack(weight);
  expect_as_reference(LinearForward{.x = tensors.strided(70, 24, type()),
                                    .weight = weight,
                                    .bias = tensors.normal({40}, DType::f32),
                                    .y = whole.column_slice(40, 40),
                                    .packed = packed.get()},
                      {&LinearForward::y});
  for (const std::int64_t first : {0, 80}) {
    EXPECT_EQ(relative_error(whole.column_slice(first, 40), before.column_slice(first, 40)), 0);
  }
}

/// A hypothesis gets the same bits whatever is searched beside it.
TEST_P(PackedLinearTest, ARowDoesNotDependOnTheOthersNorOnThreads) {
  const std::int64_t rows = 97, in = 150, out = 200;
  const Tensor x = tensors.normal({rows, in}, type()), together = tensors.zeros({rows, out}, type());
  const Tensor weight = tensors.normal({out, in}, type());
  const auto packed = tested->pack(weight);
  tested->run(LinearForward{.x = x, .weight = weight, .bias = {}, .y = together, .packed = packed.get()});
  const auto alone = another_backend(1);
  const auto packed_alone = alone->pack(weight);
  for (std::int64_t first = 0, count = 1; first + count <= rows; first += count++) {
    const Tensor some = tensors.zeros({count, out}, type());
    alone->run(LinearForward{.x = ConstTensor(x).row_slice(first, count),
                             .weight = weight,
                             .bias = {},
                             .y = some,
                             .packed = packed_alone.get()});
    EXPECT_TRUE(same_bits(some, together.row_slice(first, count))) << "rows from " << first;
  }
}

TEST_P(PackedLinearTest, RefusesAnotherWeightsCopy) {
  const Tensor weight = tensors.normal({5, 3}, type());
  const auto other = tested->pack(tensors.normal({3, 5}, type()));
  try {
    tested->run(LinearForward{.x = tensors.normal({4, 3}, type()),
                              .weight = weight,
                              .bias = {},
                              .y = tensors.zeros({4, 5}, type()),
                              .packed = other.get()});
    FAIL() << "accepted";
  } catch (const Failure& failure) {
    const std::string name(name_of(type()));
    EXPECT_EQ(failure.what(), "linear_forward: packed is of a weight [3, 5] " + name + ", weight is [5, 3] " + name);
  }
}

}  // namespace
}  // namespace babelring
