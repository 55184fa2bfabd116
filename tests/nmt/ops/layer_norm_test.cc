#include "nmt/ops/layer_norm.h"
#include "nmt/ops/elementwise.h"
#include "tests/nmt/ops/op_fixture.h"

namespace babelring {
namespace {

class LayerNormTest : public OpTest {
 protected:
  /// Normal values from the element `offset` of an allocation on.
  Tensor rows_at(std::int64_t offset, std::int64_t rows, std::int64_t width, double scale = 1) {
    const Tensor flat = tensors.normal({offset + rows * width}, type(), scale).row_slice(offset, rows * width);
    return {flat.data, Shape{rows, width}, type()};
  }
  /// The operands of `type()` begin at the element `offset` of their allocations.
  LayerNormBackward backward(std::int64_t rows, std::int64_t width, std::int64_t offset = 0) {
    const Tensor x = rows_at(offset, rows, width, 2), gain = tensors.normal({width}, DType::f32);
    const Tensor mean = tensors.zeros({rows}, DType::f32), rstd = tensors.zeros({rows}, DType::f32);
    tested->run(LayerNormForward{
        .x = x, .gain = gain, .bias = gain, .y = tensors.zeros({rows, width}, type()), .mean = mean, .rstd = rstd});
    return {.dy = rows_at(offset, rows, width),
            .x = x,
            .gain = gain,
            .mean = mean,
            .rstd = rstd,
            .dx = rows_at(offset, rows, width),
            .dgain = tensors.normal({width}, DType::f32),
            .dbias = tensors.normal({width}, DType::f32)};
  }
  /// Adds the branch's gradient, with dropout, and the sums of its columns.
  void with_branch(LayerNormBackward& op, Tensor dbranch) {
    op.dbranch = dbranch;
    op.key = {.key = 9, .first_row = 3, .probability = 0.25f};
    op.dbranch_bias = tensors.normal({dbranch.columns()}, DType::f32);
  }
  /// Runs the op and compares dbranch_bias with the sums of dbranch as it is stored. In bf16, sums of unrounded values
  /// would differ by far more.
  void expect_branch_sums(const LayerNormBackward& op) {
    const reference::Matrix before = reference::load(op.dbranch_bias);
    tested->run(op);
    const reference::Matrix dbranch = reference::load(op.dbranch), sums = reference::load(op.dbranch_bias);
    for (std::int64_t column = 0; column < op.dbranch.columns(); ++column) {
      const auto i = static_cast<std::size_t>(column);
      double expected = op.accumulate_parameters ? before.values[i] : 0, size = 1;
      for (std::size_t at = i; at < dbranch.values.size(); at += static_cast<std::size_t>(op.dbranch.columns())) {
        expected += dbranch.values[at], size += std::abs(dbranch.values[at]);
      }
      ASSERT_NEAR(sums.values[i], expected, 1e-6 * size) << "column " << column << " of " << op.dbranch.shape.text();
    }
  }
  /// In a row of one column, dx is 0: its terms cancel, which are dy * gain * rstd with an rstd of 316. A
  /// multiplication that is fused with an addition leaves the rounding of one of them.
  static double largest_term(const LayerNormBackward& op) {
    if (op.x.columns() > 1) return 1e-3;
    const double rstd = 1 / std::sqrt(static_cast<double>(LayerNormForward{}.eps));
    double largest = 1e-3;
    for (const double dy : reference::load(op.dy).values) {
      largest = std::max(largest, std::abs(dy * reference::load(op.gain).values[0]) * rstd);
    }
    return largest;
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, LayerNormTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, LayerNormTest, gpu_precisions, precision_name);

const std::pair<std::int64_t, std::int64_t> extents[] = {{1, 1}, {1, 128}, {3, 7}, {33, 127}, {257, 512}, {40, 1024}};

TEST_P(LayerNormTest, ForwardEqualsReference) {
  for (const auto& [rows, width] : extents) {
    LayerNormForward op{.x = tensors.normal({rows, width}, type(), 3),
                        .gain = tensors.normal({width}, DType::f32),
                        .bias = tensors.normal({width}, DType::f32),
                        .y = tensors.zeros({rows, width}, type()),
                        .mean = tensors.zeros({rows}, DType::f32),
                        .rstd = tensors.zeros({rows}, DType::f32)};
    expect_as_reference(op, {&LayerNormForward::y, &LayerNormForward::mean, &LayerNormForward::rstd});
    const Tensor in_place = tensors.copy(op.x);
    op.x = op.y = in_place;
    expect_as_reference(op, {&LayerNormForward::y});
  }
}

TEST_P(LayerNormTest, BackwardEqualsReference) {
  for (const auto& [rows, width] : extents) {
    LayerNormBackward op = backward(rows, width);
    const auto results = {&LayerNormBackward::dx, &LayerNormBackward::dgain, &LayerNormBackward::dbias};
    expect_as_reference(op, results, largest_term(op));
    op.accumulate = true;
    expect_as_reference(op, results, largest_term(op));
  }
}

/// More rows than warps of a device's blocks, and rows too wide for eight, or for any, in a block's shared memory.
TEST_P(LayerNormTest, BackwardOfTallAndWideTensorsEqualsReference) {
  for (const auto& [rows, width] :
       {std::pair<std::int64_t, std::int64_t>{3300, 16}, {2200, 512}, {1100, 1024}, {9, 4096}, {3, 9008}}) {
    LayerNormBackward op = backward(rows, width);
    op.accumulate_parameters = rows == 9, op.accumulate = rows == 1100;
    expect_as_reference(op, {&LayerNormBackward::dx, &LayerNormBackward::dgain, &LayerNormBackward::dbias});
    with_branch(op, tensors.zeros({rows, width}, type()));
    expect_as_reference(op, {&LayerNormBackward::dx, &LayerNormBackward::dgain, &LayerNormBackward::dbias});
    expect_branch_sums(op);
  }
}

/// Rows of widths that a GPU's warps would keep in registers, but that do not begin where 16 bytes can be moved.
TEST_P(LayerNormTest, RowsThatAreNotAlignedEqualReference) {
  for (const std::int64_t width : {512, 1024}) {
    constexpr std::int64_t rows = 37;
    for (const std::int64_t offset : {1, 2}) {
      LayerNormForward forward{.x = rows_at(offset, rows, width, 3),
                               .gain = tensors.normal({width}, DType::f32),
                               .bias = tensors.normal({width}, DType::f32),
                               .y = rows_at(offset, rows, width),
                               .mean = tensors.zeros({rows}, DType::f32),
                               .rstd = tensors.zeros({rows}, DType::f32)};
      expect_as_reference(forward, {&LayerNormForward::y, &LayerNormForward::mean, &LayerNormForward::rstd});
      const DropoutKey key{.key = 9, .first_row = 3, .probability = 0.25f};
      ResidualNormForward residual{.residual = rows_at(offset, rows, width, 3),
                                   .branch = rows_at(offset, rows, width),
                                   .key = key,
                                   .gain = forward.gain,
                                   .bias = forward.bias,
                                   .sum = rows_at(offset, rows, width),
                                   .y = rows_at(offset, rows, width),
                                   .mean = forward.mean,
                                   .rstd = forward.rstd};
      expect_as_reference(residual, {&ResidualNormForward::sum, &ResidualNormForward::y});
      LayerNormBackward op = backward(rows, width, offset);
      with_branch(op, rows_at(offset, rows, width));
      expect_as_reference(op, {&LayerNormBackward::dx, &LayerNormBackward::dbranch, &LayerNormBackward::dgain,
                               &LayerNormBackward::dbias});
      expect_branch_sums(op);
    }
  }
}

TEST_P(LayerNormTest, BackwardOverwritesParametersWhenItShallNotAdd) {
  for (const auto& [rows, width] : extents) {
    LayerNormBackward op = backward(rows, width);
    op.accumulate_parameters = false;
    expect_as_reference(op, {&LayerNormBackward::dgain, &LayerNormBackward::dbias});
  }
  LayerNormBackward none = backward(0, 8);
  none.accumulate_parameters = false;
  with_branch(none, tensors.zeros({0, 8}, type()));
  expect_as_reference(none, {&LayerNormBackward::dgain, &LayerNormBackward::dbias, &LayerNormBackward::dbranch_bias});
}

TEST_P(LayerNormTest, ResidualNormIsTheTwoOpsInOne) {
  for (const auto& [rows, width] : extents) {
    for (const float probability : {0.0f, 0.25f}) {
      const DropoutKey key{.key = 9, .first_row = 3, .probability = probability};
      ResidualNormForward op{.residual = tensors.normal({rows, width}, type(), 3),
                             .branch = tensors.normal({rows, width}, type()),
                             .key = key,
                             .gain = tensors.normal({width}, DType::f32),
                             .bias = tensors.normal({width}, DType::f32),
                             .sum = tensors.zeros({rows, width}, type()),
                             .y = tensors.zeros({rows, width}, type()),
                             .mean = tensors.zeros({rows}, DType::f32),
                             .rstd = tensors.zeros({rows}, DType::f32)};
      // Mean and rstd only by the ops: a sum that rounds the other way moves them by more than f32's precision.
      expect_as_reference(op, {&ResidualNormForward::sum, &ResidualNormForward::y});
      const Tensor sum = tensors.zeros({rows, width}, type()), y = tensors.zeros({rows, width}, type());
      const Tensor mean = tensors.zeros({rows}, DType::f32), rstd = tensors.zeros({rows}, DType::f32);
      tested->run(ResidualDropout{.residual = op.residual, .branch = op.branch, .y = sum, .key = key});
      tested->run(LayerNormForward{.x = sum, .gain = op.gain, .bias = op.bias, .y = y, .mean = mean, .rstd = rstd});
      EXPECT_TRUE(same_bits(op.mean, mean));
      EXPECT_TRUE(same_bits(op.rstd, rstd));
      EXPECT_TRUE(same_bits(op.sum, sum));
      EXPECT_TRUE(same_bits(op.y, y));
      const Tensor in_place = tensors.copy(op.residual);
      op.residual = op.sum = in_place;
      tested->run(op);
      EXPECT_TRUE(same_bits(op.sum, sum));
      EXPECT_TRUE(same_bits(op.y, y));
    }
  }
}

TEST_P(LayerNormTest, BackwardGivesTheBranchItsDropout) {
  for (const auto& [rows, width] : extents) {
    for (const float probability : {0.0f, 0.25f}) {
      LayerNormBackward op = backward(rows, width);
      op.dbranch = tensors.zeros({rows, width}, type());
      op.key = {.key = 9, .first_row = 3, .probability = probability};
      expect_as_reference(op, {&LayerNormBackward::dx, &LayerNormBackward::dbranch, &LayerNormBackward::dgain},
                          largest_term(op));
      const Tensor dbranch = tensors.zeros({rows, width}, type());
      tested->run(Dropout{.x = op.dx, .y = dbranch, .key = op.key});
      EXPECT_TRUE(same_bits(op.dbranch, dbranch));
    }
  }
}

TEST_P(LayerNormTest, BackwardSumsTheColumnsOfTheBranch) {
  for (const auto& [rows, width] : extents) {
    for (const bool accumulate : {true, false}) {
      LayerNormBackward op = backward(rows, width);
      with_branch(op, tensors.zeros({rows, width}, type()));
      op.accumulate_parameters = accumulate;
      expect_branch_sums(op);
    }
  }
}

TEST_P(LayerNormTest, BackwardMayOverwriteItsGradient) {
  for (const std::int64_t width : {64, 512}) {
    LayerNormBackward op = backward(37, width);
    const Tensor dy = tensors.copy(op.dy);
    op.dy = op.dx = dy;
    expect_as_reference(op, {&LayerNormBackward::dx});
  }
}

/// The norm by the root mean square, which has neither bias nor mean.
class RmsNormTest : public LayerNormTest {
 protected:
  ResidualNormForward residual_norm(std::int64_t rows, std::int64_t width, std::int64_t offset = 0) {
    return {.residual = rows_at(offset, rows, width, 3),
            .branch = rows_at(offset, rows, width),
            .key = {.key = 9, .first_row = 3, .probability = 0.25f},
            .gain = tensors.normal({width}, DType::f32),
            .bias = {},
            .sum = rows_at(offset, rows, width),
            .y = rows_at(offset, rows, width),
            .mean = {},
            .rstd = tensors.zeros({rows}, DType::f32)};
  }
  /// The norm of the residual norm's sum.
  LayerNormForward norm_of(const ResidualNormForward& op) {
    return {.x = op.sum,
            .gain = op.gain,
            .bias = {},
            .y = tensors.zeros(op.y.shape, type()),
            .mean = {},
            .rstd = tensors.zeros(op.rstd.shape, DType::f32)};
  }
  LayerNormBackward rms_backward(std::int64_t rows, std::int64_t width, std::int64_t offset = 0) {
    LayerNormBackward op = backward(rows, width, offset);
    LayerNormForward forward{.x = op.x,
                             .gain = op.gain,
                             .bias = {},
                             .y = tensors.zeros({rows, width}, type()),
                             .mean = {},
                             .rstd = tensors.zeros({rows}, DType::f32)};
    tested->run(forward);
    op.mean = {}, op.dbias = {}, op.rstd = forward.rstd;
    return op;
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, RmsNormTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, RmsNormTest, gpu_precisions, precision_name);

TEST_P(RmsNormTest, ForwardEqualsReferenceAndResidualNormIsTheTwoOpsInOne) {
  for (const auto& [rows, width] : extents) {
    for (const std::int64_t offset : {0, 1}) {
      const ResidualNormForward op = residual_norm(rows, width, offset);
      expect_as_reference(op, {&ResidualNormForward::sum, &ResidualNormForward::y});
      LayerNormForward alone = norm_of(op);
      expect_as_reference(alone, {&LayerNormForward::y, &LayerNormForward::rstd});
      EXPECT_TRUE(same_bits(op.y, alone.y));
      EXPECT_TRUE(same_bits(op.rstd, alone.rstd));
      const Tensor in_place = tensors.copy(op.sum);
      alone.x = alone.y = in_place;
      expect_as_reference(alone, {&LayerNormForward::y});
    }
  }
}

/// All extents, also more rows than warps of a device's blocks, and rows too wide for shared memory.
TEST_P(RmsNormTest, BackwardEqualsReference) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all(std::begin(extents), std::end(extents));
  all.insert(all.end(), {{3300, 16}, {2200, 512}, {1100, 1024}, {9, 4096}, {3, 17000}});
  for (const auto& [rows, width] : all) {
    LayerNormBackward op = rms_backward(rows, width, rows == 40 ? 1 : 0);
    expect_as_reference(op, {&LayerNormBackward::dx, &LayerNormBackward::dgain}, largest_term(op));
    op.accumulate_parameters = rows == 9, op.accumulate = rows == 1100;
    with_branch(op, tensors.zeros({rows, width}, type()));
    expect_as_reference(op, {&LayerNormBackward::dx, &LayerNormBackward::dgain}, largest_term(op));
    expect_branch_sums(op);
    if (op.accumulate) continue;  // dx has changed since
    const Tensor dbranch = tensors.zeros({rows, width}, type());
    tested->run(Dropout{.x = op.dx, .y = dbranch, .key = op.key});
    EXPECT_TRUE(same_bits(op.dbranch, dbranch));
  }
}

/// A row has the same bits whatever rows are beside it.
TEST_P(RmsNormTest, RowsAreIndependent) {
  const ResidualNormForward op = residual_norm(20, 70);
  tested->run(op);
  LayerNormForward part = norm_of(op);
  part.x = op.sum.row_slice(12, 7), part.y = part.y.row_slice(0, 7), part.rstd = part.rstd.row_slice(0, 7);
  another_backend(1)->run(part);
  EXPECT_TRUE(same_bits(op.y.row_slice(12, 7), part.y));
  EXPECT_TRUE(same_bits(op.rstd.row_slice(12, 7), part.rstd));
}
}  // namespace
}  // namespace babelring
