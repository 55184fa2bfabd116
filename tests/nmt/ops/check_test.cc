#include "nmt/ops/check.h"

#include <gmock/gmock.h>

#include "nmt/ops/ops.h"
#include "tests/nmt/ops/op_fixture.h"

/// The operands that check() refuses, and its messages.
namespace babelring {
namespace {

template <class Op>
std::string refusal(const Op& op) {
  try {
    op.check();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "accepted";
}

class CheckTest : public testing::Test {
 protected:
  Tensor f32(Shape shape) { return tensors.zeros(shape, DType::f32); }
  Tensor bf16(Shape shape) { return tensors.zeros(shape, DType::bf16); }
  Tensor words(Shape shape) { return tensors.zeros(shape, DType::i32); }
  Tensor i32(std::int64_t count) { return tensors.zeros({count}, DType::i32); }
  Tensors tensors;
};

TEST_F(CheckTest, Linear) {
  const LinearForward good{.x = f32({4, 3}), .weight = f32({5, 3}), .bias = f32({5}), .y = f32({4, 5})};
  EXPECT_EQ(refusal(good), "accepted");
  LinearForward op = good;
  op.weight = f32({5, 2});
  EXPECT_EQ(refusal(op), "linear_forward: weight has shape [5, 2], x [4, 3] needs [5, 3]");
  op = good, op.weight = bf16({5, 3});
  EXPECT_EQ(refusal(op), "linear_forward: weight is bf16, x is f32");
  op = good, op.weight = f32({5, 6}).column_slice(0, 3);
  EXPECT_EQ(refusal(op), "linear_forward: weight [5, 3] has a row stride of 6, contiguous rows are needed");
  op = good, op.bias = f32({4});
  EXPECT_EQ(refusal(op), "linear_forward: bias has shape [4], weight [5, 3] needs [5]");
  op = good, op.bias = bf16({5});
  EXPECT_EQ(refusal(op), "linear_forward: bias is bf16, f32 is needed");
  op = good, op.x = {};
  EXPECT_EQ(refusal(op), "linear_forward: x is absent");
  op = good, op.y = bf16({4, 5});
  EXPECT_EQ(refusal(op), "linear_forward: y is bf16, x is f32");
  op = good, op.x = f32({12});
  EXPECT_EQ(refusal(op), "linear_forward: x has shape [12], 2 extents are needed");
  op = good, op.x = ConstTensor(i32(12).data, {4, 3}, DType::i32);
  EXPECT_EQ(refusal(op), "linear_forward: x is i32, f32 or bf16 is needed");
  const Tensor whole = f32({4, 8});
  op = good, op.x = whole.column_slice(0, 3), op.y = whole.column_slice(3, 5);
  EXPECT_EQ(refusal(op), "accepted") << "columns of one matrix share no element";
  op.y = whole.column_slice(2, 5);
  EXPECT_EQ(refusal(op), "linear_forward: y overlaps x, it must not alias it");
}

TEST_F(CheckTest, LinearBackward) {
  const LinearBackwardData data{.dy = f32({4, 5}), .weight = f32({5, 3}), .dx = f32({4, 3})};
  EXPECT_EQ(refusal(data), "accepted");
  LinearBackwardData wrong = data;
  wrong.dx = f32({4, 2});
  EXPECT_EQ(refusal(wrong), "linear_backward_data: dx has shape [4, 2], dy [4, 5] needs [4, 3]");
  wrong = data, wrong.gate = f32({4, 2});
  EXPECT_EQ(refusal(wrong), "linear_backward_data: gate has shape [4, 2], dx [4, 3] needs [4, 3]");
  wrong.gate = f32({4, 3}), wrong.gate_scale = INFINITY;
  EXPECT_EQ(refusal(wrong), "linear_backward_data: gate_scale is inf, a finite number is needed");
  wrong.gate_scale = 1, wrong.accumulate = true;
  EXPECT_EQ(refusal(wrong), "linear_backward_data: a gated result cannot be added to dx");
  wrong = data, wrong.dbias = f32({3});
  EXPECT_EQ(refusal(wrong), "linear_backward_data: dbias without a gate");
  wrong.gate = f32({4, 3});
  EXPECT_EQ(refusal(wrong), "accepted");
  wrong.dbias = f32({5});
  EXPECT_EQ(refusal(wrong), "linear_backward_data: dbias has shape [5], weight [5, 3] needs [3]");
  wrong.dbias = bf16({3});
  EXPECT_EQ(refusal(wrong), "linear_backward_data: dbias is bf16, f32 is needed");
  wrong.dbias = Tensor(wrong.dx.data, {3}, DType::f32);
  EXPECT_EQ(refusal(wrong), "linear_backward_data: dbias overlaps dx, it must not alias it");
  const LinearBackwardWeight weight{.dy = f32({4, 5}), .x = f32({4, 3}), .dweight = f32({5, 3}), .dbias = {}};
  EXPECT_EQ(refusal(weight), "accepted");
  LinearBackwardWeight off = weight;
  off.x = f32({3, 3});
  EXPECT_EQ(refusal(off), "linear_backward_weight: x has shape [3, 3], dy [4, 5] needs [4, 3]");
  off = weight, off.dweight = bf16({5, 3});
  EXPECT_EQ(refusal(off), "linear_backward_weight: dweight is bf16, f32 is needed");
  off = weight, off.dbias = f32({4});
  EXPECT_EQ(refusal(off), "linear_backward_weight: dbias has shape [4], dy [4, 5] needs [5]");
}

TEST_F(CheckTest, LayerNorm) {
  const LayerNormForward good{.x = f32({64, 256}),
                              .gain = f32({256}),
                              .bias = f32({256}),
                              .y = f32({64, 256}),
                              .mean = f32({64}),
                              .rstd = f32({64})};
  EXPECT_EQ(refusal(good), "accepted");
  LayerNormForward op = good;
  op.gain = f32({512});
  EXPECT_EQ(refusal(op), "layer_norm_forward: gain has shape [512], x [64, 256] needs [256]");
  op = good, op.rstd = op.mean;
  EXPECT_EQ(refusal(op), "layer_norm_forward: mean overlaps rstd, it must not alias it");
  op = good, op.eps = -1;
  EXPECT_EQ(refusal(op), "layer_norm_forward: eps is -1, 0 to 1 is needed");
  const Tensor longer = f32({65, 256});
  op = good, op.x = longer.row_slice(0, 64), op.y = longer.row_slice(1, 64);
  EXPECT_EQ(refusal(op), "layer_norm_forward: y overlaps x in part, it may only be the same view");
  const LayerNormBackward backward{.dy = f32({4, 8}),
                                   .x = f32({4, 8}),
                                   .gain = f32({8}),
                                   .mean = f32({4}),
                                   .rstd = f32({4}),
                                   .dx = f32({4, 8}),
                                   .dgain = f32({8}),
                                   .dbias = f32({8})};
  EXPECT_EQ(refusal(backward), "accepted");
  LayerNormBackward aliased = backward;
  aliased.dy = aliased.dx;
  EXPECT_EQ(refusal(aliased), "accepted");
  aliased.accumulate = true;
  EXPECT_EQ(refusal(aliased), "layer_norm_backward: dx overlaps dy, it must not alias it");
  aliased = backward, aliased.x = bf16({4, 8});
  EXPECT_EQ(refusal(aliased), "layer_norm_backward: x is bf16, dy is f32");
  aliased = backward, aliased.dbranch = aliased.dx;
  EXPECT_EQ(refusal(aliased), "layer_norm_backward: dbranch overlaps dx, it must not alias it");
  aliased = backward, aliased.dbranch_bias = f32({8});
  EXPECT_EQ(refusal(aliased), "layer_norm_backward: dbranch_bias without dbranch");
  aliased.dbranch = f32({4, 8}), aliased.dbranch_bias = f32({4});
  EXPECT_EQ(refusal(aliased), "layer_norm_backward: dbranch_bias has shape [4], dy [4, 8] needs [8]");
  aliased.dbranch_bias = aliased.dbias;
  EXPECT_EQ(refusal(aliased), "layer_norm_backward: dbranch_bias overlaps dbias, it must not alias it");
}

TEST_F(CheckTest, ResidualNorm) {
  const ResidualNormForward good{.residual = f32({4, 8}),
                                 .branch = f32({4, 8}),
                                 .key = {},
                                 .gain = f32({8}),
                                 .bias = f32({8}),
                                 .sum = f32({4, 8}),
                                 .y = f32({4, 8}),
                                 .mean = f32({4}),
                                 .rstd = f32({4})};
  EXPECT_EQ(refusal(good), "accepted");
  ResidualNormForward op = good;
  op.branch = op.sum;
  EXPECT_EQ(refusal(op), "accepted");
  op = good, op.branch = f32({4, 7});
  EXPECT_EQ(refusal(op), "residual_norm_forward: branch has shape [4, 7], residual [4, 8] needs [4, 8]");
  op = good, op.sum = op.y;
  EXPECT_EQ(refusal(op), "residual_norm_forward: sum overlaps y, it must not alias it");
  op = good, op.residual = op.y;
  EXPECT_EQ(refusal(op), "residual_norm_forward: y overlaps residual, it must not alias it");
  op = good, op.gain = f32({7});
  EXPECT_EQ(refusal(op), "residual_norm_forward: gain has shape [7], residual [4, 8] needs [8]");
}

TEST_F(CheckTest, NormsByTheRootMeanSquare) {
  LayerNormForward op{.x = f32({4, 8}), .gain = f32({8}), .bias = {}, .y = f32({4, 8}), .mean = {}, .rstd = f32({4})};
  EXPECT_EQ(refusal(op), "accepted");
  op.mean = f32({4});
  EXPECT_EQ(refusal(op), "layer_norm_forward: mean without bias");
  op.mean = {}, op.bias = f32({8});
  EXPECT_EQ(refusal(op), "layer_norm_forward: bias without mean");
  LayerNormBackward backward{.dy = f32({4, 8}),
                             .x = f32({4, 8}),
                             .gain = f32({8}),
                             .mean = {},
                             .rstd = f32({4}),
                             .dx = f32({4, 8}),
                             .dgain = f32({8}),
                             .dbias = {}};
  EXPECT_EQ(refusal(backward), "accepted");
  backward.dbias = f32({8});
  EXPECT_EQ(refusal(backward), "layer_norm_backward: dbias without mean");
}

TEST_F(CheckTest, RotaryPositions) {
  RotaryPositions good{.x = f32({2, 12}), .positions = tensors.list({0, 1}), .y = f32({2, 12}), .heads = 3};
  EXPECT_EQ(refusal(good), "accepted");
  RotaryPositions op = good;
  op.heads = 4;
  EXPECT_EQ(refusal(op), "rotary_positions: x [2, 12] has no 4 heads of an even width");
  op = good, op.heads = 0;
  EXPECT_EQ(refusal(op), "rotary_positions: heads is 0, at least 1 is needed");
  op = good, op.positions = tensors.list({0, 1, 2});
  EXPECT_EQ(refusal(op), "rotary_positions: positions has shape [3], x [2, 12] needs [2]");
  op = good, op.y = bf16({2, 12});
  EXPECT_EQ(refusal(op), "rotary_positions: y is bf16, x is f32");
}

TEST_F(CheckTest, Dropout) {
  const Dropout good{.x = f32({2, 3}), .y = f32({2, 3}), .key = {.probability = 0.5f}};
  EXPECT_EQ(refusal(good), "accepted");
  for (const float probability : {-0.1f, 1.0f, 0.999999f, NAN}) {
    Dropout op = good;
    op.key.probability = probability;
    EXPECT_THAT(refusal(op), testing::StartsWith("dropout: dropout probability is "));
  }
  EXPECT_EQ(refusal(ResidualDropout{.residual = f32({2, 3}), .branch = f32({2, 4}), .y = f32({2, 3}), .key = {}}),
            "residual_dropout: branch has shape [2, 4], residual [2, 3] needs [2, 3]");
}

TEST_F(CheckTest, Activation) {
  const ActivationForward good{.z = f32({2, 3}), .y = f32({2, 3}), .key = {}};
  EXPECT_EQ(refusal(good), "accepted");
  ActivationForward op = good;
  op.activation = Activation::relu;
  EXPECT_EQ(refusal(op), "activation_forward: activation is relu, swish, gelu or swiglu is needed");
  op = good, op.activation = Activation::swiglu;
  EXPECT_EQ(refusal(op), "activation_forward: up is absent");
  op.up = f32({2, 4});
  EXPECT_EQ(refusal(op), "activation_forward: up has shape [2, 4], z [2, 3] needs [2, 3]");
  op.up = f32({2, 3});
  EXPECT_EQ(refusal(op), "accepted");
  op.activation = Activation::gelu;
  EXPECT_EQ(refusal(op), "activation_forward: up with gelu, swiglu is needed");
  op = good, op.y = bf16({2, 3});
  EXPECT_EQ(refusal(op), "activation_forward: y is bf16, z is f32");
  op = good, op.key.probability = 1;
  EXPECT_THAT(refusal(op), testing::StartsWith("activation_forward: dropout probability is "));
  ActivationBackward back{.dy = f32({2, 3}), .z = f32({2, 3}), .dz = f32({2, 3}), .key = {}};
  back.dz = f32({2, 4});
  EXPECT_EQ(refusal(back), "activation_backward: dz has shape [2, 4], z [2, 3] needs [2, 3]");
  back = {.dy = f32({2, 3}), .z = f32({2, 3}), .dz = f32({2, 3}), .activation = Activation::swiglu, .key = {}};
  const Tensor up = f32({2, 3});
  back.up = up;
  EXPECT_EQ(refusal(back), "activation_backward: dup is absent");
  back.dup = back.dz;
  EXPECT_EQ(refusal(back), "activation_backward: dz overlaps dup, it must not alias it");
  back.dup = up;
  EXPECT_EQ(refusal(back), "accepted");
  LinearForward linear{
      .x = f32({4, 3}), .weight = f32({5, 3}), .bias = {}, .y = f32({4, 5}), .activation = Activation::swish};
  EXPECT_EQ(refusal(linear), "linear_forward: activation is swish, none or relu is needed");
}

TEST_F(CheckTest, Embedding) {
  const EmbeddingForward good{.ids = i32(4), .positions = i32(4), .table = f32({9, 8}), .y = f32({4, 8}), .key = {}};
  EXPECT_EQ(refusal(good), "accepted");
  EmbeddingForward op = good;
  op.ids = f32({4});
  EXPECT_EQ(refusal(op), "embedding_forward: ids is f32, i32 is needed");
  op = good, op.positions = i32(5);
  EXPECT_EQ(refusal(op), "embedding_forward: positions has shape [5], ids [4] needs [4]");
  EXPECT_EQ(refusal(EmbeddingBackward{.ids = i32(4), .dy = f32({4, 8}), .dtable = f32({9, 7}), .key = {}}),
            "embedding_backward: dtable has shape [9, 7], dy [4, 8] needs [9, 8]");
}

TEST_F(CheckTest, Attention) {
  const AttentionForward good{.q = f32({5, 8}),
                              .k = f32({7, 8}),
                              .v = f32({7, 8}),
                              .q_offsets = tensors.list({0, 2, 5}),
                              .k_offsets = tensors.list({0, 3, 7}),
                              .heads = 2,
                              .key = {},
                              .out = f32({5, 8}),
                              .log_sum_exp = f32({5, 2})};
  EXPECT_EQ(refusal(good), "accepted");
  AttentionForward op = good;
  op.heads = 3;
  EXPECT_EQ(refusal(op), "attention_forward: width 8 is not a multiple of 3 heads");
  op = good, op.heads = 0;
  EXPECT_EQ(refusal(op), "attention_forward: heads is 0, at least 1 is needed");
  op = good, op.causal = true;
  EXPECT_EQ(refusal(op), "attention_forward: causal needs equal offsets, q_offsets[1] is 2, k_offsets[1] is 3");
  op = good, op.q_offsets = tensors.list({0, 2, 4});
  EXPECT_EQ(refusal(op), "attention_forward: q_offsets ends at 4, q [5, 8] needs 5");
  op = good, op.q_offsets = tensors.list({0, 6, 5});
  EXPECT_EQ(refusal(op), "attention_forward: q_offsets[2] is 5, less than 6 before it");
  op = good, op.q_offsets = tensors.list({1, 2, 5});
  EXPECT_EQ(refusal(op), "attention_forward: q_offsets must begin with 0");
  op = good, op.k_offsets = tensors.list({0, 7});
  EXPECT_EQ(refusal(op), "attention_forward: k_offsets has shape [2], q_offsets [3] needs [3]");
  op = good, op.v = f32({6, 8});
  EXPECT_EQ(refusal(op), "attention_forward: v has shape [6, 8], k [7, 8] needs [7, 8]");
  DecodeAttention decode{.q = f32({2, 8}),
                         .keys = f32({9, 8}),
                         .values = f32({9, 8}),
                         .key_begin = i32(2),
                         .key_count = i32(3),
                         .heads = 2,
                         .out = f32({2, 8})};
  EXPECT_EQ(refusal(decode), "decode_attention: key_count has shape [3], q [2, 8] needs [2]");
  decode.key_count = i32(2), decode.key_rows = tensors.zeros({3, 4}, DType::i32);
  EXPECT_EQ(refusal(decode), "decode_attention: one of key_begin and key_rows is needed, not both");
  decode.key_begin = {};
  EXPECT_EQ(refusal(decode), "decode_attention: key_rows has shape [3, 4], q [2, 8] needs [2, 4]");
}

TEST_F(CheckTest, GuidedAttention) {
  const GuidedAttention good{.q = f32({3, 8}),
                             .k = f32({5, 8}),
                             .q_offsets = tensors.list({0, 2, 3}),
                             .k_offsets = tensors.list({0, 4, 5}),
                             .link_offsets = tensors.list({0, 1, 3, 4}),
                             .links = tensors.list({3, 0, 1, 0, 99}),
                             .log_sum_exp = f32({3, 2}),
                             .heads = 2,
                             .dq = f32({3, 8}),
                             .dk = f32({5, 8}),
                             .loss = f32({3})};
  EXPECT_EQ(refusal(good), "accepted");
  GuidedAttention op = good;
  op.head = 2;
  EXPECT_EQ(refusal(op), "guided_attention: head is 2, 0 to 1 is needed");
  op = good, op.link_offsets = tensors.list({0, 1, 3, 5});
  EXPECT_EQ(refusal(op), "guided_attention: row 2 has a link to key 99, its sentence has 1");
  op = good, op.link_offsets = tensors.list({0, 2, 1, 4});
  EXPECT_EQ(refusal(op), "guided_attention: row 1 has links 2 to 1, links has 5");
  op = good, op.link_offsets = tensors.list({0, 1, 3, 6});
  EXPECT_EQ(refusal(op), "guided_attention: row 2 has links 3 to 6, links has 5");
  op = good, op.link_offsets = tensors.list({1, 1, 3, 4});
  EXPECT_EQ(refusal(op), "guided_attention: link_offsets must begin with 0");
  op = good, op.link_offsets = tensors.list({0, 1, 3});
  EXPECT_EQ(refusal(op), "guided_attention: link_offsets has shape [3], q [3, 8] needs [4]");
  op = good, op.dk = good.dq;
  EXPECT_EQ(refusal(op), "guided_attention: dk has shape [3, 8], k [5, 8] needs [5, 8]");
}

TEST_F(CheckTest, LossesAndOptimizer) {
  const CrossEntropy loss{
      .logits = f32({4, 9}), .targets = i32(4), .loss = f32({4}), .nll = f32({4}), .correct = f32({3})};
  EXPECT_EQ(refusal(loss), "cross_entropy: correct has shape [3], logits [4, 9] needs [4]");
  SymmetricDivergence apart{.first = f32({4, 9}),
                            .second = f32({4, 8}),
                            .targets = i32(4),
                            .dfirst = f32({4, 9}),
                            .dsecond = f32({4, 9}),
                            .loss = f32({4})};
  EXPECT_EQ(refusal(apart), "symmetric_divergence: second has shape [4, 8], first [4, 9] needs [4, 9]");
  apart.second = apart.dfirst;
  EXPECT_EQ(refusal(apart), "symmetric_divergence: dfirst overlaps second, it must not alias it");
  EXPECT_EQ(refusal(LogSoftmaxTopK{
                .logits = f32({4, 9}), .scores = f32({4, 10}), .indices = tensors.zeros({4, 10}, DType::i32)}),
            "log_softmax_top_k: k is 10, 1 to 9 is needed");
  EXPECT_EQ(refusal(LogSoftmaxTopK{.logits = f32({4, 9}),
                                   .scores = f32({4, 2}),
                                   .indices = tensors.zeros({4, 2}, DType::i32),
                                   .all = f32({4, 8})}),
            "log_softmax_top_k: all has shape [4, 8], logits [4, 9] needs [4, 9]");
  AdamUpdate adam{.master = f32({6}), .gradient = f32({6}), .m = f32({6}), .v = f32({5}), .compute = {}};
  EXPECT_EQ(refusal(adam), "adam_update: v has shape [5], master [6] needs [6]");
  adam.v = f32({6}), adam.step = 0;
  EXPECT_EQ(refusal(adam), "adam_update: step is 0, at least 1 is needed");
  adam.squares = bf16({2});
  EXPECT_EQ(refusal(adam), "adam_update: squares is bf16, f32 is needed");
  adam.average = f32({5});
  EXPECT_EQ(refusal(adam), "adam_update: average has shape [5], master [6] needs [6]");
  adam.average = Tensor();
  adam.squares = f32({2}), adam.clip_norm = -1;
  EXPECT_THAT(refusal(adam), testing::StartsWith("adam_update: clip_norm is -1, 0 to "));
  adam.clip_norm = 0, adam.v = f32({6}), adam.step = 1;
  adam.rows = {.blocks = words({3}), .pieces = words({1, 7}), .counts = words({1, 10}), .parts = words({1, 8})};
  EXPECT_EQ(refusal(adam), "adam_update: row_blocks has shape [3], row_pieces [1, 7] needs [2]");
  adam.rows.counts = words({1, 9});
  EXPECT_EQ(refusal(adam), "adam_update: row_counts has shape [1, 9], rows of 10 words are needed");
  adam.rows.pieces = f32({1, 7});
  EXPECT_EQ(refusal(adam), "adam_update: row_pieces is f32, i32 is needed");
  EXPECT_EQ(refusal(SquaredNorm{.x = bf16({3}), .sums = f32({1})}), "squared_norm: x is bf16, f32 is needed");
  EXPECT_EQ(refusal(SquaredNorm{.x = f32({16385}), .sums = f32({1})}),
            "squared_norm: sums has shape [1], x [16385] needs [2]");
  EXPECT_EQ(refusal(SumWithNorm{.parts = {}, .sum = f32({5}), .norms = f32({1})}),
            "sum_with_norm: number of parts is 0, at least 1 is needed");
  EXPECT_EQ(refusal(SumWithNorm{.parts = {f32({5}), f32({4})}, .sum = f32({5}), .norms = f32({1})}),
            "sum_with_norm: parts has shape [4], sum [5] needs [5]");
  const Tensor part = f32({5});
  EXPECT_EQ(refusal(SumWithNorm{.parts = {f32({5}), part}, .sum = f32({5}), .norms = part.row_slice(0, 1)}),
            "sum_with_norm: norms overlaps parts, it must not alias it");
}

TEST_F(CheckTest, Elementwise) {
  EXPECT_EQ(refusal(Cast{.x = f32({3}), .y = bf16({4})}), "cast: y has shape [4], x [3] needs [3]");
  EXPECT_EQ(refusal(Add{.x = f32({3}), .y = bf16({3})}), "add: y is bf16, x is f32");
  EXPECT_EQ(refusal(Fill{.y = i32(3)}), "fill: y is i32, f32 or bf16 is needed");
}

/// Indices are read where the data is: by the backend.
class IndexTest : public CheckTest, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Devices, IndexTest, testing::Values("cpu", "closed", "emulated", "cuda"));

TEST_P(IndexTest, OutOfRangeIsRefused) {
  const auto tested = make_tested_backend(GetParam(), 1);
  if (tested == nullptr) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  const auto message = [&](const auto& op) -> std::string {
    try {
      tested->run(op);
    } catch (const std::exception& error) {
      return error.what();
    }
    return "accepted";
  };
  const Tensor table = f32({9, 8}), ids = tensors.list({0, 9}), row = f32({2, 8});
  EXPECT_EQ(message(EmbeddingForward{.ids = ids, .positions = i32(2), .table = table, .y = row, .key = {}}),
            "embedding_forward: ids[1] is 9, 0 to 8 is needed");
  EXPECT_EQ(
      message(EmbeddingForward{.ids = i32(2), .positions = tensors.list({0, -1}), .table = table, .y = row, .key = {}}),
      "embedding_forward: positions[1] is -1, at least 0 is needed");
  EXPECT_EQ(message(EmbeddingBackward{.ids = ids, .dy = row, .dtable = table, .key = {}}),
            "embedding_backward: ids[1] is 9, 0 to 8 is needed");
  EXPECT_EQ(message(CrossEntropy{.logits = f32({2, 9}),
                                 .targets = ids,
                                 .dlogits = {},
                                 .loss = f32({2}),
                                 .nll = f32({2}),
                                 .correct = f32({2})}),
            "cross_entropy: targets[1] is 9, 0 to 8 is needed");
  EXPECT_EQ(message(DecodeAttention{.q = row,
                                    .keys = table,
                                    .values = f32({9, 8}),
                                    .key_begin = tensors.list({0, 5}),
                                    .key_count = tensors.list({9, 5}),
                                    .out = f32({2, 8})}),
            "decode_attention: row 1 has keys 5 to 10, the cache has 9 rows");
  const Tensor list = tensors.list({0, 8, 9, 1});
  DecodeAttention listed{.q = row,
                         .keys = table,
                         .values = f32({9, 8}),
                         .key_rows = Tensor(list.data, {2, 2}, DType::i32),
                         .key_count = tensors.list({2, 2}),
                         .out = f32({2, 8})};
  EXPECT_EQ(message(listed), "decode_attention: row 1 has a key in row 9, the cache has 9 rows");
  listed.key_count = tensors.list({2, 3});
  EXPECT_EQ(message(listed), "decode_attention: row 1 has 3 keys, key_rows lists 2");
}

}  // namespace
}  // namespace babelring
