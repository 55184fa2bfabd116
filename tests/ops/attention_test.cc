#include "nmt/ops/attention.h"

#include "tests/ops/op_fixture.h"

namespace babelring {
namespace {

struct Layout {
  std::vector<std::int32_t> q_offsets, k_offsets;
  int heads;
  std::int64_t head_width;
  bool causal;
  float probability;
};

const Layout layouts[] = {
    {{0, 1}, {0, 1}, 1, 1, false, 0},
    {{0, 1, 4, 11}, {0, 1, 4, 11}, 2, 5, true, 0},
    {{0, 3, 3, 20}, {0, 17, 18, 25}, 3, 16, false, 0.2f},             // a sentence without queries
    {{0, 3, 8}, {0, 0, 7}, 2, 32, false, 0.1f},                       // a sentence without keys
    {{0, 30, 61, 90, 130}, {0, 30, 61, 90, 130}, 4, 32, true, 0.3f},  //
    {{0, 49, 53}, {0, 31, 128}, 2, 64, false, 0.1f},
    {{0, 101, 229}, {0, 101, 229}, 1, 128, true, 0.1f},
    {{0, 5}, {0, 300}, 2, 17, false, 0.1f},
};

class AttentionTest : public OpTest {
 protected:
  /// q, k and v are thirds of one matrix where they have the same rows.
  AttentionForward forward(const Layout& layout) {
    const std::int64_t width = layout.heads * layout.head_width;
    const std::int64_t queries = layout.q_offsets.back(), keys = layout.k_offsets.back();
    return {.q = tensors.strided(queries, width, type()),
            .k = tensors.strided(keys, width, type()),
            .v = tensors.strided(keys, width, type()),
            .q_offsets = tensors.list(layout.q_offsets),
            .k_offsets = tensors.list(layout.k_offsets),
            .heads = layout.heads,
            .causal = layout.causal,
            .scale = 1 / std::sqrt(static_cast<float>(layout.head_width)),
            .key = {.key = 99, .first_row = 1000, .probability = layout.probability},
            .out = tensors.zeros({queries, width}, type()),
            .log_sum_exp = tensors.zeros({queries, layout.heads}, DType::f32)};
  }
  AttentionBackward backward(const AttentionForward& op) {
    return {.dout = tensors.normal(op.q.shape, type()),
            .out = op.out,
            .q = op.q,
            .k = op.k,
            .v = op.v,
            .q_offsets = op.q_offsets,
            .k_offsets = op.k_offsets,
            .log_sum_exp = op.log_sum_exp,
            .heads = op.heads,
            .causal = op.causal,
            .scale = op.scale,
            .key = op.key,
            .dq = tensors.strided(op.q.shape[0], op.q.shape[1], type()),
            .dk = tensors.strided(op.k.shape[0], op.q.shape[1], type()),
            .dv = tensors.strided(op.k.shape[0], op.q.shape[1], type())};
  }
};
INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, precisions, precision_name);

TEST_P(AttentionTest, ForwardAndBackwardEqualReference) {
  for (const Layout& layout : layouts) {
    const AttentionForward op = forward(layout);
    expect_as_reference(op, {&AttentionForward::out, &AttentionForward::log_sum_exp});
    expect_as_reference(backward(op), {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv});
  }
}

TEST_P(AttentionTest, SentenceDoesNotDependOnItsNeighbours) {
  const AttentionForward both = forward({{0, 40, 71}, {0, 40, 71}, 4, 32, true, 0});
  cpu->run(both);
  AttentionForward one = both;
  one.q = both.q.row_slice(40, 31), one.k = both.k.row_slice(40, 31), one.v = both.v.row_slice(40, 31);
  one.q_offsets = one.k_offsets = tensors.list({0, 31});
  one.out = tensors.zeros({31, 128}, type()), one.log_sum_exp = tensors.zeros({31, 4}, DType::f32);
  cpu->run(one);
  EXPECT_TRUE(same_bits(one.out, both.out.row_slice(40, 31)));
  EXPECT_TRUE(same_bits(one.log_sum_exp, both.log_sum_exp.row_slice(40, 31)));
}

TEST_P(AttentionTest, NegativeScaleIsAsGoodAsAPositiveOne) {
  AttentionForward op = forward({{0, 20}, {0, 20}, 2, 8, false, 0});
  op.scale = -30;
  expect_as_reference(op, {&AttentionForward::log_sum_exp});
}

TEST_P(AttentionTest, DecodeEqualsReference) {
  for (const std::int64_t width : {1, 13, 32, 64}) {
    const DecodeAttention op{.q = tensors.strided(5, 4 * width, type()),
                             .keys = tensors.strided(200, 4 * width, type()),
                             .values = tensors.strided(200, 4 * width, type()),
                             .key_begin = tensors.list({0, 7, 7, 100, 200}),
                             .key_count = tensors.list({1, 90, 13, 100, 0}),
                             .heads = 4,
                             .scale = 0.3f,
                             .out = tensors.zeros({5, 4 * width}, type())};
    expect_as_reference(op, {&DecodeAttention::out});
  }
}

/// What a decoder computes step by step is what training computes at once.
TEST_P(AttentionTest, DecodeAgreesWithCausalForward) {
  const AttentionForward op = forward({{0, 9}, {0, 9}, 2, 16, true, 0});
  cpu->run(op);
  const Tensor out = tensors.zeros({9, 32}, type());
  cpu->run(DecodeAttention{.q = op.q,
                           .keys = op.k,
                           .values = op.v,
                           .key_begin = tensors.list({0, 0, 0, 0, 0, 0, 0, 0, 0}),
                           .key_count = tensors.list({1, 2, 3, 4, 5, 6, 7, 8, 9}),
                           .heads = 2,
                           .scale = op.scale,
                           .out = out});
  EXPECT_LE(relative_error(out, op.out), GetParam().tolerance);
}

TEST(AttentionFlops, CountProductsOfScores) {
  Tensors tensors;
  AttentionForward op;
  op.q = tensors.zeros({7, 8}, DType::f32);
  op.q_offsets = tensors.list({0, 3, 7});
  op.k_offsets = tensors.list({0, 5, 6});
  EXPECT_EQ(op.flops(), 2 * 2 * 8 * (3 * 5 + 4 * 1));
  op.k_offsets = op.q_offsets;
  op.causal = true;
  EXPECT_EQ(op.flops(), 2 * 2 * 8 * (6 + 10));
}

}  // namespace
}  // namespace babelring
