#include "nmt/ops/attention.h"

#include "nmt/ops/cpu/kernels.h"
#include "tests/nmt/ops/op_fixture.h"

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
    // Around the edges of blocks of 16 and 32 queries and keys, and of vectors of 16 and 32 columns.
    {{0, 16, 48, 81, 98}, {0, 16, 48, 81, 98}, 2, 64, true, 0.1f},
    {{0, 16, 48, 81, 98, 99}, {0, 33, 65, 81, 98, 130}, 2, 64, false, 0.1f},
    {{0, 64, 129}, {0, 64, 129}, 2, 32, true, 0.3f},
    {{0, 64, 129}, {0, 65, 129}, 1, 64, false, 0},
    {{0, 257}, {0, 257}, 1, 64, true, 0.1f},
    {{0, 100, 101}, {0, 257, 357}, 1, 64, false, 0.1f},
    {{0, 31, 68}, {0, 47, 60}, 3, 8, false, 0.1f},
    {{0, 31, 68}, {0, 31, 68}, 2, 80, true, 0.1f},
    {{0, 7, 40}, {0, 13, 30}, 1, 200, false, 0.1f},
    {{0, 3}, {0, 5}, 1, 2050, false, 0},               // wider than tiles take
    {{0, 0, 0, 5}, {0, 0, 4, 4}, 2, 64, false, 0.1f},  // neither, no queries, no keys
    // Sentences of which a block of the GPU's kernels takes one, two or four heads; keys come 16 at a time.
    {{0, 8, 24, 25}, {0, 40, 57, 73}, 2, 64, false, 0.1f},
    {{0, 8, 24, 33, 50}, {0, 8, 24, 33, 50}, 4, 32, true, 0.3f},
    {{0, 40, 56}, {0, 9, 25}, 2, 64, false, 0.1f},
    {{0, 16, 20}, {0, 16, 36}, 1, 128, false, 0.1f},
    {{0, 16, 33, 65}, {0, 16, 33, 65}, 7, 16, true, 0.1f},
    // More rows than a block of the GPU's kernels has, with and without a rest.
    {{0, 256, 417}, {0, 129, 385}, 1, 64, false, 0.1f},
    {{0, 255, 290}, {0, 255, 290}, 1, 64, true, 0.1f},
    {{0, 128, 129}, {0, 129, 257}, 1, 128, false, 0.1f},
    {{0, 70, 370}, {0, 70, 370}, 3, 24, true, 0.2f},
    {{0, 10, 110}, {0, 190, 195}, 5, 40, false, 0.1f},
};

constexpr Tensor AttentionBackward::* gradients[] = {&AttentionBackward::dq, &AttentionBackward::dk,
                                                     &AttentionBackward::dv};

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
};
INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTest, precisions, precision_name);
INSTANTIATE_TEST_SUITE_P(Gpu, AttentionTest, gpu_precisions, precision_name);

TEST_P(AttentionTest, ForwardAndBackwardEqualReference) {
  for (const Layout& layout : layouts) {
    const AttentionForward op = forward(layout);
    expect_as_reference(op, {&AttentionForward::out, &AttentionForward::log_sum_exp});
    expect_as_reference(gradient_of(op, tensors),
                        {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv});
  }
}

TEST_P(AttentionTest, RepeatsBitByBitWithAnyNumberOfThreads) {
  for (const Layout& layout : layouts) {
    const AttentionForward op = forward(layout);
    const AttentionBackward gradient = gradient_of(op, tensors);
    tested->run(op);
    tested->run(gradient);
    for (const int threads : {1, 2, 3}) {
      AttentionForward again = op;
      again.out = tensors.zeros(op.out.shape, type());
      again.log_sum_exp = tensors.zeros(op.log_sum_exp.shape, DType::f32);
      const auto backend = another_backend(threads);
      backend->run(again);
      EXPECT_TRUE(same_bits(again.out, op.out)) << threads;
      EXPECT_TRUE(same_bits(again.log_sum_exp, op.log_sum_exp)) << threads;
      AttentionBackward gradient_again = gradient;
      for (Tensor AttentionBackward::* result : gradients) {
        gradient_again.*result = tensors.zeros((gradient.*result).shape, type());
      }
      backend->run(gradient_again);
      for (Tensor AttentionBackward::* result : gradients) {
        EXPECT_TRUE(same_bits(gradient_again.*result, tensors.copy(gradient.*result))) << threads;
      }
    }
  }
}

class AttentionTilesTest : public AttentionTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, AttentionTilesTest, testing::Values(Precision{DType::bf16, 1e-2}), precision_name);

/// Attention in bf16 with matrix tiles and without.
TEST_P(AttentionTilesTest, TilesAgreeWithVectors) {
  if (cpu::kernel_set() != cpu::KernelSet::amx) GTEST_SKIP() << "no AMX here, or BABELRING_CPU_ISA forbids it";
  cpu::CpuContext with_tiles(2), without(2, cpu::KernelSet::avx512_bf16);
  for (const Layout& layout : layouts) {
    const AttentionForward tiles = forward(layout);
    AttentionForward vectors = tiles;
    vectors.out = tensors.zeros(tiles.out.shape, type());
    vectors.log_sum_exp = tensors.zeros(tiles.log_sum_exp.shape, DType::f32);
    cpu::run(tiles, with_tiles);
    cpu::run(vectors, without);
    EXPECT_LE(relative_error(tiles.out, vectors.out), GetParam().tolerance);
    EXPECT_LE(relative_error(tiles.log_sum_exp, vectors.log_sum_exp), f32_tolerance());
    const AttentionBackward gradient = gradient_of(tiles, tensors);
    AttentionBackward by_vectors = gradient;
    for (Tensor AttentionBackward::* result : gradients) {
      by_vectors.*result = tensors.zeros((gradient.*result).shape, type());
    }
    cpu::run(gradient, with_tiles);
    cpu::run(by_vectors, without);
    for (Tensor AttentionBackward::* result : gradients) {
      EXPECT_LE(relative_error(gradient.*result, by_vectors.*result), 2 * GetParam().tolerance);
    }
  }
}

/// Values beside a head or behind a sentence in memory are not used, not even times 0.
TEST_P(AttentionTest, NumbersAroundAHeadAreNotRead) {
  const auto hostile = [&](std::int64_t rows, std::int64_t width) {
    const Tensor all = tensors.zeros({rows + 40, 3 * width}, type());
    reference::Matrix values(rows + 40, 3 * width);
    std::fill(values.values.begin(), values.values.end(), std::nan(""));
    reference::store(values, all);
    const Tensor inner = all.row_slice(0, rows).column_slice(width, width);
    reference::store(reference::load(tensors.normal({rows, width}, type())), inner);
    return inner;
  };
  for (const std::int64_t width : {8, 40, 64}) {
    const Layout layout{{0, 19}, {0, 37}, 1, width, false, 0.1f};
    AttentionForward op = forward(layout);
    op.q = hostile(19, width), op.k = hostile(37, width), op.v = hostile(37, width);
    expect_as_reference(op, {&AttentionForward::out, &AttentionForward::log_sum_exp});
    expect_as_reference(gradient_of(op, tensors),
                        {&AttentionBackward::dq, &AttentionBackward::dk, &AttentionBackward::dv});
  }
}

TEST_P(AttentionTest, ScoresFarApartKeepTheSoftmaxFinite) {
  AttentionForward op = forward({{0, 40}, {0, 40}, 1, 64, true, 0});
  op.scale = 40;
  expect_as_reference(op, {&AttentionForward::log_sum_exp});
  for (const double value : reference::load(op.out).values) EXPECT_TRUE(std::isfinite(value));
  const AttentionBackward gradient = gradient_of(op, tensors);
  tested->run(gradient);
  for (const double value : reference::load(gradient.dq).values) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(AttentionTest, SentenceDoesNotDependOnItsNeighbours) {
  const AttentionForward both = forward({{0, 40, 71}, {0, 40, 71}, 4, 32, true, 0});
  tested->run(both);
  AttentionForward one = both;
  one.q = both.q.row_slice(40, 31), one.k = both.k.row_slice(40, 31), one.v = both.v.row_slice(40, 31);
  one.q_offsets = one.k_offsets = tensors.list({0, 31});
  one.out = tensors.zeros({31, 128}, type()), one.log_sum_exp = tensors.zeros({31, 4}, DType::f32);
  tested->run(one);
  EXPECT_TRUE(same_bits(one.out, both.out.row_slice(40, 31)));
  EXPECT_TRUE(same_bits(one.log_sum_exp, both.log_sum_exp.row_slice(40, 31)));
}

TEST_P(AttentionTest, NegativeScaleIsAsGoodAsAPositiveOne) {
  AttentionForward op = forward({{0, 20}, {0, 20}, 2, 8, false, 0});
  op.scale = -30;
  expect_as_reference(op, {&AttentionForward::log_sum_exp});
}

TEST_P(AttentionTest, DecodeEqualsReference) {
  for (const std::int64_t width : {1, 13, 32, 64, 80, 120, 200}) {
    const DecodeAttention op{.q = tensors.strided(5, 4 * width, type()),
                             .keys = tensors.strided(200, 4 * width, type()),
                             .values = tensors.strided(200, 4 * width, type()),
                             .key_begin = tensors.list({0, 7, 7, 100, 200}),
                             .key_count = tensors.list({1, 90, 13, 100, 0}),
                             .heads = 4,
                             .scale = 0.3f,
                             .out = tensors.zeros({5, 4 * width}, type())};
    expect_as_reference(op, {&DecodeAttention::out});
    DecodeAttention listed = op;
    listed.key_begin = {};
    const Tensor rows = tensors.list({3, 1, 199, 0, 0, 0, 7, 7, 8, 199, 2, 1, 0, 0, 0});
    listed.key_rows = Tensor(rows.data, {5, 3}, DType::i32);
    listed.key_count = tensors.list({3, 1, 3, 2, 0});
    expect_as_reference(listed, {&DecodeAttention::out});
  }
}

/// A decoder computes step by step the values that training computes at once.
TEST_P(AttentionTest, DecodeAgreesWithCausalForward) {
  const AttentionForward op = forward({{0, 9}, {0, 9}, 2, 16, true, 0});
  tested->run(op);
  const Tensor out = tensors.zeros({9, 32}, type());
  tested->run(DecodeAttention{.q = op.q,
                              .keys = op.k,
                              .values = op.v,
                              .key_begin = tensors.list({0, 0, 0, 0, 0, 0, 0, 0, 0}),
                              .key_count = tensors.list({1, 2, 3, 4, 5, 6, 7, 8, 9}),
                              .heads = 2,
                              .scale = op.scale,
                              .out = out});
  EXPECT_LE(relative_error(out, op.out), GetParam().tolerance);
}

/// Random links of each row, from none to three, and some of one row to the same key twice.
GuidedAttention guided(const AttentionForward& op, int head, Tensors& tensors) {
  const std::vector<std::int32_t> counts = {1, 0, 2, 3, 1};
  std::vector<std::int32_t> offsets = {0}, links;
  const auto *q_at = op.q_offsets.as<std::int32_t>(), *k_at = op.k_offsets.as<std::int32_t>();
  for (std::int64_t sentence = 0; sentence + 1 < op.q_offsets.shape[0]; ++sentence) {
    const std::int32_t keys = k_at[sentence + 1] - k_at[sentence];
    for (std::int32_t row = q_at[sentence]; row < q_at[sentence + 1]; ++row) {
      for (std::int32_t i = 0; keys > 0 && i < counts[static_cast<std::size_t>(row) % counts.size()]; ++i) {
        links.push_back((row * 7 + i / 2 * 3) % keys);
      }
      offsets.push_back(static_cast<std::int32_t>(links.size()));
    }
  }
  links.insert(links.end(), {-5, 1 << 20});  // not used
  return {.q = op.q,
          .k = op.k,
          .q_offsets = op.q_offsets,
          .k_offsets = op.k_offsets,
          .link_offsets = tensors.list(offsets),
          .links = tensors.list(links),
          .log_sum_exp = op.log_sum_exp,
          .heads = op.heads,
          .head = head,
          .scale = op.scale,
          .gradient_scale = 0.7f,
          .dq = tensors.strided(op.q.rows(), op.q.columns(), op.q.dtype),
          .dk = tensors.strided(op.k.rows(), op.k.columns(), op.k.dtype),
          .loss = tensors.normal({op.q.rows()}, DType::f32)};
}

TEST_P(AttentionTest, GuidedEqualsReference) {
  for (const Layout& layout : layouts) {
    if (layout.causal) continue;
    AttentionForward op = forward(layout);
    tested->run(op);
    for (const int head : {0, layout.heads - 1}) {
      expect_as_reference(guided(op, head, tensors),
                          {&GuidedAttention::loss, &GuidedAttention::dq, &GuidedAttention::dk});
    }
  }
}

/// A row without links, a sentence without any, and the columns of other heads keep their gradients.
TEST_P(AttentionTest, GuidedAddsToLinkedRowsOfItsHeadAlone) {
  const AttentionForward op = forward({{0, 2, 5}, {0, 3, 7}, 2, 8, false, 0.1f});
  tested->run(op);
  GuidedAttention guide = guided(op, 1, tensors);
  guide.link_offsets = tensors.list({0, 0, 1, 1, 1, 1});
  guide.links = tensors.list({2});
  const Tensor dq = tensors.copy(guide.dq), dk = tensors.copy(guide.dk);
  tested->run(guide);
  const Tensor dq_now = tensors.copy(guide.dq), dk_now = tensors.copy(guide.dk);
  const auto changed = [](const ConstTensor& before, const ConstTensor& after, std::int64_t row, std::int64_t head) {
    const reference::Matrix a = reference::load(before), b = reference::load(after);
    for (std::int64_t c = head * 8; c < head * 8 + 8; ++c) {
      if (a(row, c) != b(row, c)) return true;
    }
    return false;
  };
  for (std::int64_t row = 0; row < 5; ++row) {
    EXPECT_FALSE(changed(dq, dq_now, row, 0));
    EXPECT_EQ(changed(dq, dq_now, row, 1), row == 1);
    EXPECT_EQ(guide.loss.as<float>()[row] != 0, row == 1);
  }
  for (std::int64_t row = 0; row < 7; ++row) {
    EXPECT_FALSE(changed(dk, dk_now, row, 0));
    EXPECT_EQ(changed(dk, dk_now, row, 1), row < 3);
  }
}

TEST_P(AttentionTest, GuidedRepeatsBitByBitWithAnyNumberOfThreads) {
  const AttentionForward op = forward({{0, 16, 48, 81, 98, 99}, {0, 33, 65, 81, 98, 130}, 2, 64, false, 0.1f});
  tested->run(op);
  const GuidedAttention guide = guided(op, 1, tensors);
  const Tensor dq = tensors.copy(guide.dq), dk = tensors.copy(guide.dk);
  tested->run(guide);
  for (const int threads : {1, 3}) {
    GuidedAttention again = guide;
    again.dq = tensors.copy(dq), again.dk = tensors.copy(dk), again.loss = tensors.zeros(guide.loss.shape, DType::f32);
    another_backend(threads)->run(again);
    EXPECT_TRUE(same_bits(again.loss, guide.loss));
    EXPECT_TRUE(same_bits(again.dq, tensors.copy(guide.dq)));
    EXPECT_TRUE(same_bits(again.dk, tensors.copy(guide.dk)));
  }
}

TEST(AttentionFlops, CountMatmulsOfScores) {
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
