#include "tests/nmt/ops/op_fixture.h"
#include "tests/reference/formulas.h"

namespace babelring {
namespace {

struct Extents {
  std::int64_t rows, in, out;
};
const Extents matmuls[] = {{1, 1, 1},     {1, 16, 16},    {2, 3, 5},      {7, 13, 31},    {63, 64, 17}, {64, 128, 128},
                           {65, 128, 96}, {131, 67, 257}, {200, 512, 64}, {16, 64, 4001}, {0, 8, 8}};

class LinearTest : public OpTest {
 protected:
  /// dx equals the reference's, dbias the sums of the dx that is stored, and both have the same bits again.
  void expect_gate_with_sums(const LinearBackwardData& op) {
    LinearBackwardData again = op, truth = op;
    again.dx = tensors.copy(op.dx), again.dbias = tensors.copy(op.dbias);
    truth.dx = tensors.copy(op.dx), truth.dbias = tensors.copy(op.dbias);
    const Tensor sums = tensors.copy(op.dbias);
    tested->run(op);
    tested->run(again);
    reference->run(truth);
    const std::string what = op.dx.shape.text() + (op.accumulate_dbias ? ", added" : "");
    EXPECT_LE(relative_error(op.dx, truth.dx), op.dx.dtype == DType::bf16 ? GetParam().tolerance : f32_tolerance())
        << what;
    EXPECT_TRUE(same_bits(tensors.copy(op.dx), again.dx)) << what;
    EXPECT_TRUE(same_bits(op.dbias, again.dbias)) << what;
    // The sums of the stored values: an element that was rounded the other way changes nothing.
    op.accumulate_dbias ? reference::add(reference::column_sums(reference::load(op.dx)), sums)
                        : reference::store(reference::column_sums(reference::load(op.dx)), sums);
    EXPECT_LE(relative_error(op.dbias, sums), f32_tolerance()) << what;
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, LinearTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, LinearTest, gpu_precisions, precision_name);

TEST_P(LinearTest, ForwardEqualsReference) {
  for (const auto& [rows, in, out] : matmuls) {
    LinearForward op{.x = tensors.normal({rows, in}, type()),
                     .weight = tensors.normal({out, in}, type()),
                     .bias = {},
                     .y = tensors.zeros({rows, out}, type())};
    expect_as_reference(op, {&LinearForward::y});
    op.bias = tensors.normal({out}, DType::f32, 5);
    expect_as_reference(op, {&LinearForward::y});
    op.activation = Activation::relu;
    expect_as_reference(op, {&LinearForward::y});
    op.y = tensors.zeros({rows, out}, DType::f32);
    expect_as_reference(op, {&LinearForward::y});
  }
}

TEST_P(LinearTest, ForwardTakesAndWritesStridedViews) {
  const LinearForward op{.x = tensors.strided(70, 24, type()),
                         .weight = tensors.normal({40, 24}, type()),
                         .bias = tensors.normal({40}, DType::f32),
                         .y = tensors.strided(70, 40, type())};
  expect_as_reference(op, {&LinearForward::y});
}

TEST_P(LinearTest, ForwardLeavesTheNeighboursOfAStridedResultAlone) {
  const Tensor whole = tensors.normal({70, 120}, type()), before = tensors.copy(whole);
  tested->run(LinearForward{.x = tensors.normal({70, 24}, type()),
                            .weight = tensors.normal({40, 24}, type()),
                            .bias = {},
                            .y = whole.column_slice(40, 40)});
  for (const std::int64_t first : {0, 80}) {
    EXPECT_EQ(relative_error(whole.column_slice(first, 40), before.column_slice(first, 40)), 0);
  }
  EXPECT_GT(relative_error(whole.column_slice(40, 40), before.column_slice(40, 40)), 0.1);
}

TEST_P(LinearTest, BackwardDataEqualsReference) {
  for (const auto& [rows, in, out] : matmuls) {
    for (const bool accumulate : {false, true}) {
      const LinearBackwardData op{.dy = tensors.normal({rows, out}, type()),
                                  .weight = tensors.normal({out, in}, type()),
                                  .dx = tensors.normal({rows, in}, type()),
                                  .accumulate = accumulate};
      expect_as_reference(op, {&LinearBackwardData::dx});
    }
  }
}

TEST_P(LinearTest, BackwardDataThroughAGateEqualsReference) {
  for (const auto& [rows, in, out] : matmuls) {
    const LinearBackwardData op{.dy = tensors.normal({rows, out}, type()),
                                .weight = tensors.normal({out, in}, type()),
                                .dx = tensors.normal({rows, in}, type()),
                                .gate = tensors.normal({rows, in}, type()),
                                .gate_scale = 1.25f};
    expect_as_reference(op, {&LinearBackwardData::dx});
  }
}

TEST_P(LinearTest, BackwardDataTakesAStridedGate) {
  expect_as_reference(LinearBackwardData{.dy = tensors.strided(70, 40, type()),
                                         .weight = tensors.normal({40, 96}, type()),
                                         .dx = tensors.strided(70, 96, type()),
                                         .gate = tensors.strided(70, 96, type()),
                                         .gate_scale = 2},
                      {&LinearBackwardData::dx});
}

TEST_P(LinearTest, BackwardDataSumsTheColumnsThatItStored) {
  for (const auto& [rows, in, out] : matmuls) {
    for (const bool accumulate : {false, true}) {
      expect_gate_with_sums({.dy = tensors.normal({rows, out}, type()),
                             .weight = tensors.normal({out, in}, type()),
                             .dx = tensors.normal({rows, in}, type()),
                             .gate = tensors.normal({rows, in}, type()),
                             .gate_scale = 1.25f,
                             .dbias = tensors.normal({in}, DType::f32, 100),
                             .accumulate_dbias = accumulate});
    }
  }
}

/// Rows around a device's blocks of 64 and the four that its threads take together; widths of whole, halves of and odd
/// pieces of 16 bytes, of less than a block of threads and of several; and rows that do not begin where pieces do.
TEST_P(LinearTest, GateWithSumsOfAnyExtentsEqualsReference) {
  const std::int64_t depth = 4;
  const auto expect = [&](std::int64_t rows, std::int64_t width, std::int64_t stride, bool accumulate) {
    const auto strided = [&] { return tensors.normal({rows, stride}, type()).column_slice(stride - width, width); };
    expect_gate_with_sums({.dy = tensors.normal({rows, depth}, type()),
                           .weight = tensors.normal({depth, width}, type()),
                           .dx = strided(),
                           .gate = strided(),
                           .dbias = tensors.normal({width}, DType::f32),
                           .accumulate_dbias = accumulate});
  };
  for (const std::int64_t rows : {1, 7, 8, 63, 64, 65, 200}) {
    for (const std::int64_t width : {8, 36, 72, 512}) expect(rows, width, width, rows % 2 == 0);
  }
  for (const std::int64_t rows : {1, 65, 200}) {
    for (const std::int64_t width : {2048, 4096}) expect(rows, width, width, rows > 1);
  }
  for (const std::int64_t width : {8, 36, 72, 512}) expect(4097, width, width, false);
  for (const std::int64_t width : {8, 36, 72, 512}) expect(65, width, width + 3, false);
  for (const std::int64_t width : {8, 72, 512}) expect(65, width, width + 16, true);
}

TEST_P(LinearTest, BackwardWeightOverwritesWhenItShallNotAdd) {
  for (const auto& [rows, in, out] : matmuls) {
    const LinearBackwardWeight op{.dy = tensors.normal({rows, out}, type()),
                                  .x = tensors.normal({rows, in}, type()),
                                  .dweight = tensors.normal({out, in}, DType::f32, 100),
                                  .dbias = tensors.normal({out}, DType::f32, 100),
                                  .accumulate = false};
    expect_as_reference(op, {&LinearBackwardWeight::dweight, &LinearBackwardWeight::dbias});
  }
}

TEST_P(LinearTest, BackwardWeightAddsInF32) {
  for (const auto& [rows, in, out] : matmuls) {
    LinearBackwardWeight op{.dy = tensors.normal({rows, out}, type()),
                            .x = tensors.normal({rows, in}, type()),
                            .dweight = tensors.normal({out, in}, DType::f32),
                            .dbias = tensors.normal({out}, DType::f32)};
    expect_as_reference(op, {&LinearBackwardWeight::dweight, &LinearBackwardWeight::dbias});
    op.dbias = {};
    expect_as_reference(op, {&LinearBackwardWeight::dweight});
  }
}

TEST_P(LinearTest, BackwardTakesStridedViews) {
  const Tensor dy = tensors.strided(70, 40, type());
  expect_as_reference(LinearBackwardWeight{.dy = dy,
                                           .x = tensors.strided(70, 24, type()),
                                           .dweight = tensors.normal({40, 24}, DType::f32),
                                           .dbias = tensors.normal({40}, DType::f32)},
                      {&LinearBackwardWeight::dweight, &LinearBackwardWeight::dbias});
  expect_as_reference(LinearBackwardData{.dy = dy,
                                         .weight = tensors.normal({40, 24}, type()),
                                         .dx = tensors.strided(70, 24, type()),
                                         .accumulate = true},
                      {&LinearBackwardData::dx});
}

/// More than one pass over k, more rows than one thread's caches hold, and edges in every direction.
TEST_P(LinearTest, DeepAndTallMatmulsEqualReference) {
  if (std::string_view(GetParam().device) == "emulated") GTEST_SKIP() << "its matmuls are plain loops, and slow";
  const std::int64_t rows = 2085, in = 70, out = 4099;
  const Tensor dy = tensors.normal({rows, out}, type());
  for (const bool accumulate : {false, true}) {
    expect_as_reference(LinearBackwardData{.dy = dy,
                                           .weight = tensors.normal({out, in}, type()),
                                           .dx = tensors.normal({rows, in}, type()),
                                           .accumulate = accumulate},
                        {&LinearBackwardData::dx});
    expect_as_reference(LinearBackwardWeight{.dy = dy,
                                             .x = tensors.normal({rows, in}, type()),
                                             .dweight = tensors.normal({out, in}, DType::f32),
                                             .dbias = {},
                                             .accumulate = accumulate},
                        {&LinearBackwardWeight::dweight});
  }
}

/// Over the size from which a matmul is made for its exact rows.
TEST_P(LinearTest, LargeMatmulEqualsReference) {
  if (std::string_view(GetParam().device) == "emulated") GTEST_SKIP() << "its matmuls are plain loops, and slow";
  const LinearForward op{.x = tensors.normal({1031, 512}, type()),
                         .weight = tensors.normal({1024, 512}, type()),
                         .bias = tensors.normal({1024}, DType::f32),
                         .y = tensors.zeros({1031, 1024}, type())};
  ASSERT_GE(op.flops(), 1e9);
  expect_as_reference(op, {&LinearForward::y});
}

}  // namespace
}  // namespace babelring
