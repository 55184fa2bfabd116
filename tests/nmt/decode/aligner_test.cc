#include "nmt/decode/aligner.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "base/failure.h"
#include "nmt/decode/beam_search.h"
#include "nmt/decode/translator.h"
#include "nmt/ops/observer.h"
#include "tests/nmt/decode/tiny_model.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using Matrix = std::vector<std::vector<double>>;

/// Keeps the queries and keys of all attention.
class AttentionRecorder : public OpObserver {
 public:
  struct Seen {
    std::vector<std::vector<float>> q, k;  // rows
  };
  Watch watch() const override { return Watch::values; }
  void ran(const OpRun& run) override {
    if (run.op != "attention_forward") return;
    Seen& each = seen.emplace_back();
    for (const OpField& field : run.fields) {
      std::vector<std::vector<float>>* rows = field.name == "q" ? &each.q : field.name == "k" ? &each.k : nullptr;
      for (std::int64_t i = 0; rows != nullptr && i < field.tensor.rows(); ++i) {
        const float* row = field.tensor.as<float>() + i * field.tensor.row_stride;
        rows->emplace_back(row, row + field.tensor.columns());
      }
    }
  }
  std::vector<Seen> seen;
};

/// softmax(q k^T / sqrt(depth)) in double, of one head or the mean of all.
Matrix plain_attention(const AttentionRecorder::Seen& seen, std::size_t heads, int head) {
  const std::size_t depth = seen.q[0].size() / heads;
  Matrix weights(seen.q.size(), std::vector<double>(seen.k.size()));
  for (std::size_t h = 0; h < heads; ++h) {
    if (head >= 0 && h != static_cast<std::size_t>(head)) continue;
    for (std::size_t i = 0; i < seen.q.size(); ++i) {
      std::vector<double> scores(seen.k.size());
      double total = 0;
      for (std::size_t j = 0; j < seen.k.size(); ++j) {
        for (std::size_t c = h * depth; c < (h + 1) * depth; ++c) {
          scores[j] += static_cast<double>(seen.q[i][c]) * static_cast<double>(seen.k[j][c]);
        }
        total += scores[j] = std::exp(scores[j] / std::sqrt(static_cast<double>(depth)));
      }
      for (std::size_t j = 0; j < scores.size(); ++j) {
        weights[i][j] += scores[j] / total / (head >= 0 ? 1 : static_cast<double>(heads));
      }
    }
  }
  return weights;
}

/// The attention of layer and head in a whole forward pass over one pair. A row for <s> and each piece.
Matrix whole_pass(const Transformer& model, Backend& backend, std::vector<std::int32_t> source,
                  std::vector<std::int32_t> target, int layer, int head) {
  source.push_back(eos_id);
  target.insert(target.begin(), bos_id);
  ActivationArenas arenas(backend);
  Context context = arenas.begin(model.compute_dtype());
  const PackedSequences packed_source{.ids = source, .offsets = {0, static_cast<std::int32_t>(source.size())}};
  const PackedSequences packed_target{.ids = target, .offsets = {0, static_cast<std::int32_t>(target.size())}};
  AttentionRecorder recorder;
  const Sequences sources = upload_sequences(backend, context.saved, packed_source, 0);
  const Sequences targets = upload_sequences(backend, context.saved, packed_target, 0);
  backend.observe(&recorder);
  model.teacher_forced_logits(context, sources, targets);
  backend.observe(nullptr);
  const auto op = static_cast<std::size_t>(model.config().encoder_layers + 2 * layer + 1);
  return plain_attention(recorder.seen.at(op), static_cast<std::size_t>(model.config().heads), head);
}

class AlignerTest : public testing::TestWithParam<ModelConfig> {};

TEST_P(AlignerTest, AttentionIsThatOfAWholePass) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend, GetParam());
  const auto sources = made_up_sources({5, 1, 13, 7}, 23);
  BeamSearch search(tiny.transformer, *backend);
  for (const AttentionChoice choice : {AttentionChoice{.layer = 0, .head = 1}, AttentionChoice{.layer = 1, .head = 0},
                                       AttentionChoice{.layer = 0}, AttentionChoice{}}) {
    search.keep_attention(choice);
    const auto found = search.search(spans_of(sources), {.beam = 4, .n_best = 3});
    for (std::size_t s = 0; s < sources.size(); ++s) {
      for (const Hypothesis& hypothesis : found[s]) {
        const Attention attention = search.attention(s, hypothesis.ids);
        const Attention::Part& part = attention.parts.at(0);
        ASSERT_EQ(part.source_pieces, std::ssize(sources[s]));
        ASSERT_EQ(part.target_pieces(), std::ssize(hypothesis.ids));
        const Matrix expected =
            whole_pass(tiny.transformer, *backend, sources[s], hypothesis.ids, choice.layer_of(2), choice.head);
        for (std::int64_t i = 0; i < part.target_pieces(); ++i) {
          const std::span<const float> row = part.row(i);
          EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-5);
          for (std::size_t j = 0; j < row.size(); ++j) {
            EXPECT_NEAR(row[j], expected[static_cast<std::size_t>(i)][j], 1e-4);
          }
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, AlignerTest,
                         testing::Values(TinyModel::config(NormPosition::pre), TinyModel::config(NormPosition::post),
                                         TinyModel::modern()));

TEST(AlignerTest, RowsSumToOneOnEveryBackendAndInBothPrecisions) {
  for (const std::string& name : available_backends()) {
    const auto backend = make_test_backend(name);
    for (const DType compute : {DType::f32, DType::bf16}) {
      const TinyModel tiny(*backend, 23, NormPosition::pre, 5, compute);
      const auto sources = made_up_sources({3, 6}, 23);
      BeamSearch search(tiny.transformer, *backend);
      search.keep_attention(AttentionChoice{});
      const auto found = search.search(spans_of(sources), {.beam = 2});
      for (std::size_t s = 0; s < sources.size(); ++s) {
        const Attention::Part part = search.attention(s, found[s][0].ids).parts.at(0);
        EXPECT_EQ(part.target_pieces(), std::ssize(found[s][0].ids));
        for (std::int64_t i = 0; i < part.target_pieces(); ++i) {
          const std::span<const float> row = part.row(i);
          EXPECT_NEAR(std::accumulate(row.begin(), row.end(), 0.0), 1, 1e-5) << name;
        }
      }
    }
  }
}

TEST(AlignerTest, AnEnsembleIsAlignedByItsFirstModel) {
  const auto backend = make_cpu_backend(1);
  const TinyModel first(*backend), second(*backend, 23, NormPosition::pre, 6);
  const auto sources = made_up_sources({4}, 23);
  const std::vector<EnsembleMember> members = {{.model = &first.transformer}, {.model = &second.transformer}};
  BeamSearch together(members, Combination::probabilities, *backend);
  together.keep_attention(AttentionChoice{.layer = 0, .head = 0});
  const auto found = together.search(spans_of(sources), {.beam = 2});
  const Matrix expected = whole_pass(first.transformer, *backend, sources[0], found[0][0].ids, 0, 0);
  const Attention attention = together.attention(0, found[0][0].ids);
  for (std::int64_t i = 0; i < attention.parts[0].target_pieces(); ++i) {
    for (std::size_t j = 0; j < 5; ++j) {
      EXPECT_NEAR(attention.parts[0].row(i)[j], expected[static_cast<std::size_t>(i)][j], 1e-5);
    }
  }
}

TEST(AlignerTest, NeedsStepsThatItKept) {
  const auto backend = make_cpu_backend(1);
  const TinyModel tiny(*backend);
  const auto sources = made_up_sources({4}, 23);
  BeamSearch search(tiny.transformer, *backend);
  const auto ids = search.search(spans_of(sources), {.beam = 2})[0][0].ids;
  EXPECT_THROW(search.attention(0, ids), Failure);
  search.keep_attention(AttentionChoice{});
  search.search(spans_of(sources), {.beam = 2});
  EXPECT_EQ(search.attention(0, ids).parts.at(0).target_pieces(), std::ssize(ids));
  EXPECT_THROW(search.attention(0, std::vector<std::int32_t>(ids.size() + 40, 5)), Failure);
  search.keep_attention(std::nullopt);
  search.search(spans_of(sources), {.beam = 2});
  EXPECT_THROW(search.attention(0, ids), Failure);
}

TEST(AlignerTest, PairsPiecesAndWords) {
  // Three source pieces, of which the last two are one word, then three target pieces in two words; a second part.
  Attention attention{.parts = {{.first_source = 0,
                                 .source_pieces = 3,
                                 .weights = {0.1F, 0.2F, 0.1F, 0.6F, 0.5F, 0.3F, 0.2F, 0, 0.4F, 0.3F, 0.3F, 0}}}};
  attention.append({.parts = {{.source_pieces = 1, .weights = {0.2F, 0.8F}}}});
  EXPECT_EQ(moses_form(aligned_pieces(attention)), "0-1 0-2 1-0 3-3");
  const std::vector<std::int32_t> source_words = {0, 1, 1, 2}, target_words = {0, 0, 1, 2};
  EXPECT_EQ(moses_form(aligned_words(attention, source_words, target_words)), "1-0 1-1 2-2");
  EXPECT_EQ(moses_form({}), "");
}

TEST(AlignerTest, RefusesALayerOrHeadThatTheDecoderLacks) {
  EXPECT_NO_THROW((AttentionChoice{.layer = 1, .head = 3}.check(2, 4)));
  EXPECT_THROW((AttentionChoice{.layer = 2}.check(2, 4)), UsageFailure);
  try {
    AttentionChoice{.head = 4}.check(2, 4);
    FAIL();
  } catch (const UsageFailure& failure) {
    EXPECT_STREQ(failure.what(), "alignment-head: found 5, expected 1 to 4: the decoder's heads");
  }
}

}  // namespace
}  // namespace babelring
