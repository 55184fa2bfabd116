#include "nmt/ops/cpu/matmul.h"
#include "nmt/ops/ops.h"
#include "tests/nmt/ops/op_fixture.h"

/// The same bits again, and the same bits with any number of threads.
namespace babelring {
namespace {

class DeterminismTest : public OpTest {
 protected:
  /// Runs with 1, 2, 3 and again 3 threads; `matmuls`: only runs with equal threads need to agree.
  template <class Op>
  void expect_same_bits(const Op& op, std::initializer_list<Tensor Op::*> results, bool matmuls = false) {
    std::vector<Op> runs;
    for (const int threads : {1, 2, 3, 3}) {
      Op again = op;
      for (Tensor Op::* result : results) again.*result = tensors.copy(op.*result);
      another_backend(threads)->run(again);
      runs.push_back(again);
    }
    for (Tensor Op::* result : results) {
      EXPECT_TRUE(same_bits(runs[2].*result, runs[3].*result)) << Op::name << " again";
      if (matmuls) continue;
      EXPECT_TRUE(same_bits(runs[0].*result, runs[1].*result)) << Op::name << " with 2 threads";
      EXPECT_TRUE(same_bits(runs[0].*result, runs[2].*result)) << Op::name << " with 3 threads";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, DeterminismTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, DeterminismTest, gpu_precisions, precision_name);

TEST_P(DeterminismTest, SumsOverRows) {
  const Tensor dy = tensors.normal({333, 96}, type()), x = tensors.normal({333, 96}, type());
  expect_same_bits(LayerNormBackward{.dy = dy,
                                     .x = x,
                                     .gain = tensors.normal({96}, DType::f32),
                                     .mean = tensors.normal({333}, DType::f32),
                                     .rstd = tensors.normal({333}, DType::f32),
                                     .dx = tensors.zeros({333, 96}, type()),
                                     .dgain = tensors.zeros({96}, DType::f32),
                                     .dbias = tensors.zeros({96}, DType::f32),
                                     .dbranch = tensors.zeros({333, 96}, type()),
                                     .key = {.probability = 0.1f},
                                     .dbranch_bias = tensors.zeros({96}, DType::f32)},
                   {&LayerNormBackward::dx, &LayerNormBackward::dbranch, &LayerNormBackward::dgain,
                    &LayerNormBackward::dbias, &LayerNormBackward::dbranch_bias});
  expect_same_bits(ResidualNormForward{.residual = x,
                                       .branch = dy,
                                       .key = {.probability = 0.1f},
                                       .gain = tensors.normal({96}, DType::f32),
                                       .bias = tensors.normal({96}, DType::f32),
                                       .sum = tensors.zeros({333, 96}, type()),
                                       .y = tensors.zeros({333, 96}, type()),
                                       .mean = tensors.zeros({333}, DType::f32),
                                       .rstd = tensors.zeros({333}, DType::f32)},
                   {&ResidualNormForward::sum, &ResidualNormForward::y, &ResidualNormForward::rstd});
  expect_same_bits(LayerNormBackward{.dy = dy,
                                     .x = x,
                                     .gain = tensors.normal({96}, DType::f32),
                                     .mean = {},
                                     .rstd = tensors.normal({333}, DType::f32),
                                     .dx = tensors.zeros({333, 96}, type()),
                                     .dgain = tensors.zeros({96}, DType::f32),
                                     .dbias = {},
                                     .dbranch = tensors.zeros({333, 96}, type()),
                                     .key = {.probability = 0.1f},
                                     .dbranch_bias = tensors.zeros({96}, DType::f32)},
                   {&LayerNormBackward::dx, &LayerNormBackward::dgain, &LayerNormBackward::dbranch_bias});
  expect_same_bits(EmbeddingBackward{.ids = tensors.integers(333, 11),
                                     .dy = dy,
                                     .dtable = tensors.normal({11, 96}, DType::f32),
                                     .key = {.probability = 0.1f}},
                   {&EmbeddingBackward::dtable});
  const Tensor weight = tensors.normal({96, 96}, DType::f32), bias = tensors.normal({96}, DType::f32);
  expect_same_bits(LinearBackwardWeight{.dy = dy, .x = x, .dweight = weight, .dbias = bias},
                   {&LinearBackwardWeight::dbias});
  expect_same_bits(LinearBackwardWeight{.dy = dy, .x = x, .dweight = weight, .dbias = bias},
                   {&LinearBackwardWeight::dweight}, true);
  expect_same_bits(LinearBackwardData{.dy = dy,
                                      .weight = tensors.normal({96, 96}, type()),
                                      .dx = tensors.zeros({333, 96}, type()),
                                      .gate = x,
                                      .dbias = bias},
                   {&LinearBackwardData::dx, &LinearBackwardData::dbias}, true);
}

TEST_P(DeterminismTest, AttentionAndNorm) {
  const Tensor offsets = tensors.list({0, 60, 121, 300});
  const Tensor q = tensors.normal({300, 64}, type());
  const AttentionForward forward{.q = q,
                                 .k = tensors.normal({300, 64}, type()),
                                 .v = tensors.normal({300, 64}, type()),
                                 .q_offsets = offsets,
                                 .k_offsets = offsets,
                                 .heads = 2,
                                 .causal = true,
                                 .key = {.probability = 0.1f},
                                 .out = tensors.zeros({300, 64}, type()),
                                 .log_sum_exp = tensors.zeros({300, 2}, DType::f32)};
  expect_same_bits(forward, {&AttentionForward::out, &AttentionForward::log_sum_exp});
  expect_same_bits(SquaredNorm{.x = tensors.normal({200001}, DType::f32), .sums = tensors.zeros({13}, DType::f32)},
                   {&SquaredNorm::sums});
}

/// Matmuls of oneDNN after fix_blocking(), which cuts the larger ones into several pieces.
class FixedBlockingTest : public testing::TestWithParam<DType> {
 protected:
  template <class Op>
  void expect_same_bits(const Op& op, Tensor Op::* result) {
    Op truth = op;
    truth.*result = tensors.copy(op.*result);
    make_reference_backend()->run(truth);
    std::vector<Tensor> results;
    for (const int threads : {1, 2, 3}) {
      Op again = op;
      results.push_back(again.*result = tensors.copy(op.*result));
      const std::unique_ptr<Backend> backend = make_cpu_backend(threads);
      backend->fix_blocking();
      backend->run(again);
      EXPECT_LE(relative_error(again.*result, truth.*result), GetParam() == DType::f32 ? 1e-5 : 0.01);
      EXPECT_TRUE(same_bits(results[0], results.back())) << Op::name << " with " << threads << " threads";
    }
  }
  Tensor normal(Shape shape) { return tensors.normal(shape, GetParam()); }

  Tensors tensors;
};
INSTANTIATE_TEST_SUITE_P(Cpu, FixedBlockingTest, testing::Values(DType::f32, DType::bf16));

TEST_P(FixedBlockingTest, ThreadsChangeNoMatmul) {
  for (const Shape shape : {Shape{1031, 40, 1100}, Shape{1100, 50, 31}, Shape{70, 1203, 33}, Shape{5, 3, 2}}) {
    const std::int64_t rows = shape[0], in = shape[1], out = shape[2];
    const Tensor x = normal({rows, in}), weight = normal({out, in}), dy = normal({rows, out});
    const Tensor bias = tensors.normal({out}, DType::f32);
    expect_same_bits(
        LinearForward{.x = x, .weight = weight, .bias = bias, .y = normal({rows, out}), .activation = Activation::relu},
        &LinearForward::y);
    expect_same_bits(LinearBackwardData{.dy = dy, .weight = weight, .dx = normal({rows, in})}, &LinearBackwardData::dx);
    for (const bool accumulate : {false, true}) {
      expect_same_bits(LinearBackwardWeight{.dy = dy,
                                            .x = x,
                                            .dweight = tensors.normal({out, in}, DType::f32),
                                            .dbias = tensors.normal({out}, DType::f32),
                                            .accumulate = accumulate},
                       &LinearBackwardWeight::dweight);
    }
  }
}

cpu::MatmulShape example_shape(std::int64_t rows) {
  return {.m = rows, .n = 4, .k = 8, .a_row = 8, .a_column = 1, .b_row = 1, .b_column = 8, .c_row = 4};
}

/// Rows differ from update to update; the primitives need not.
TEST(Matmul, OnePrimitiveServesAVaryingDimension) {
  cpu::Matmul matmuls;
  const std::vector<float> a(64, 1), b(64, 1);
  std::vector<float> c(64);
  cpu::MatmulShape shape = example_shape(0);
  shape.varying = cpu::MatmulShape::Varying::m;
  for (const std::int64_t rows : {1, 7, 3, 8}) {
    shape.m = rows;
    std::fill(c.begin(), c.end(), -1.0f);
    matmuls.run(shape, a.data(), b.data(), nullptr, c.data());
    EXPECT_EQ(c[static_cast<std::size_t>(rows * 4 - 1)], 8);
    EXPECT_EQ(c[static_cast<std::size_t>(rows * 4)], -1) << "beyond the rows";
  }
  EXPECT_EQ(matmuls.created(), 1);
  shape = example_shape(8);
  shape.varying = cpu::MatmulShape::Varying::k;
  for (const std::int64_t depth : {1, 5, 8}) {
    shape.k = depth;
    matmuls.run(shape, a.data(), b.data(), nullptr, c.data());
    EXPECT_EQ(c[0], static_cast<float>(depth));
  }
  EXPECT_EQ(matmuls.created(), 2);
}

TEST(Matmul, KeepTheMostRecentPrimitives) {
  cpu::Matmul matmuls(3);
  const std::vector<float> a(64, 1), b(64, 1);
  std::vector<float> c(64);
  const auto run = [&](std::int64_t rows) {
    matmuls.run(example_shape(rows), a.data(), b.data(), nullptr, c.data());
    EXPECT_EQ(c[static_cast<std::size_t>(rows * 4 - 1)], 8);
  };
  for (const std::int64_t rows : {1, 2, 3, 1, 2, 3}) run(rows);
  EXPECT_EQ(matmuls.created(), 3);
  for (const std::int64_t rows : {4, 1}) run(rows);  // 4 drives out 1, the least recently used
  EXPECT_EQ(matmuls.created(), 5);
}

}  // namespace
}  // namespace babelring
