#include "nmt/decode/sentence_beam.h"

#include <gmock/gmock.h>

#include <numeric>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "tests/nmt/decode/uncached_search.h"

namespace babelring {
namespace {

/// A synthetic model: log-probabilities are a pure function of the seed and the prefix. `sharpness` scales the logits.
NextModel made_up_model(std::uint64_t seed, std::size_t vocabulary, double sharpness) {
  return [=](const std::vector<std::int32_t>& prefix) {
    std::uint64_t key = seed;
    for (const std::int32_t id : prefix) key = derive_seed(key, static_cast<std::uint64_t>(id));
    Random random(key);
    std::vector<double> logits(vocabulary);
    for (double& logit : logits) logit = sharpness * random.normal();
    return log_softmax(logits);
  };
}

/// Log-probabilities in descending order with their ids, as the decoder returns them.
struct Ranked {
  std::vector<float> log_probabilities;
  std::vector<std::int32_t> ids;

  Ranked(const std::vector<double>& all, int count) : ids(all.size()) {
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](std::int32_t a, std::int32_t b) {
      return all[static_cast<std::size_t>(a)] > all[static_cast<std::size_t>(b)];
    });
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(count)));
    for (const std::int32_t id : ids)
      log_probabilities.push_back(static_cast<float>(all[static_cast<std::size_t>(id)]));
  }
};

/// Runs a SentenceBeam on a model; returns the hypotheses and the number of steps.
std::pair<std::vector<Hypothesis>, int> search(const NextModel& model, std::int64_t source_pieces,
                                               const BeamOptions& options) {
  SentenceBeam beam(options, source_pieces);
  int steps = 0;
  for (; !beam.done(); ++steps) {
    std::vector<Ranked> ranked;
    for (const SentenceBeam::Live& live : beam.live()) {
      ranked.emplace_back(model(live.ids), beam.next_tokens_needed());
    }
    std::vector<NextTokens> next;
    for (const Ranked& tokens : ranked) next.push_back({tokens.log_probabilities, tokens.ids});
    beam.advance(next);
  }
  return {beam.n_best(), steps};
}

void expect_same_hypotheses(const std::vector<Hypothesis>& found, const std::vector<Hypothesis>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, expected[i].ids) << "hypothesis " << i;
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-5);
    EXPECT_EQ(found[i].complete, expected[i].complete);
  }
}

struct MadeUpCase {
  int beam, n_best;
  std::size_t vocabulary;
  LengthFormula formula;
  double penalty, unk_penalty;
};

class SentenceBeamCase : public testing::TestWithParam<MadeUpCase> {};

// The reference always runs to the maximum length, so this also checks that stopping early is exact.
TEST_P(SentenceBeamCase, EqualsTheUncachedSearch) {
  const MadeUpCase c = GetParam();
  const BeamOptions options{.beam = c.beam,
                            .n_best = c.n_best,
                            .length_formula = c.formula,
                            .length_penalty = c.penalty,
                            .max_length_factor = 1,
                            .max_length_extra = 5,
                            .unk_penalty = c.unk_penalty};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const std::int64_t pieces : {0, 1, 7}) {
      const NextModel model = made_up_model(seed, c.vocabulary, 2.0);
      expect_same_hypotheses(search(model, pieces, options).first, uncached_search(model, pieces, options));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, SentenceBeamCase,
    testing::Values(MadeUpCase{1, 1, 9, LengthFormula::power, 1, 0}, MadeUpCase{2, 1, 4, LengthFormula::power, 1, 0},
                    MadeUpCase{4, 4, 11, LengthFormula::power, 1, 0}, MadeUpCase{5, 2, 11, LengthFormula::power, 0, 0},
                    MadeUpCase{5, 1, 11, LengthFormula::power, 2.5, 0},
                    MadeUpCase{5, 3, 11, LengthFormula::gnmt, 0.6, 0}, MadeUpCase{3, 3, 5, LengthFormula::gnmt, 1, 1.5},
                    MadeUpCase{13, 13, 7, LengthFormula::power, 1, 1000}));

TEST(SentenceBeam, BeamOneIsGreedy) {
  const BeamOptions options{.beam = 1};
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const NextModel model = made_up_model(seed, 8, 1.5);
    std::vector<std::int32_t> greedy;
    bool ended = false;
    while (!ended && std::ssize(greedy) < options.max_length(4)) {
      std::vector<double> next = model(greedy);
      next[bos_id] = -1e9;
      if (greedy.empty()) next[eos_id] = -1e9;
      const auto best = static_cast<std::int32_t>(std::max_element(next.begin(), next.end()) - next.begin());
      ended = best == eos_id;
      if (!ended) greedy.push_back(best);
    }
    const Hypothesis found = search(model, 4, options).first.at(0);
    EXPECT_EQ(found.ids, greedy) << "seed " << seed;
    EXPECT_EQ(found.complete, ended);
  }
}

TEST(SentenceBeam, StopsWhenNothingCanImprove) {
  // </s> follows any first token with high probability, so other hypotheses cannot catch up.
  const NextModel model = [](const std::vector<std::int32_t>& prefix) {
    return log_softmax(prefix.empty() ? std::vector<double>{0, 0, 0, 5, 4, 3} : std::vector<double>{0, 0, 20, 0, 0, 0});
  };
  const BeamOptions options{.beam = 3, .max_length_factor = 0, .max_length_extra = 50};
  const auto [found, steps] = search(model, 3, options);
  EXPECT_EQ(found.at(0).ids, std::vector<std::int32_t>{3});
  EXPECT_EQ(steps, 2);
}

TEST(SentenceBeam, BreaksTiesBySmallerId) {
  const NextModel model = [](const std::vector<std::int32_t>& prefix) {
    return log_softmax(prefix.empty() ? std::vector<double>{0, 9, 0, 2, 2, 2} : std::vector<double>{0, 0, 9, 0, 0, 0});
  };
  EXPECT_EQ(search(model, 3, {.beam = 1}).first.at(0).ids, std::vector<std::int32_t>{3});
}

TEST(SentenceBeam, RanksCutHypothesesAfterCompleteOnes) {
  // Token 3 is likely and never ends; token 4 is unlikely and ends at once.
  const NextModel model = [](const std::vector<std::int32_t>& prefix) {
    if (prefix.empty()) return log_softmax({-20, -20, -20, 5, 0});
    return prefix.back() == 3 ? log_softmax({-20, -20, -20, 5, -20}) : log_softmax({-20, -20, 5, -20, -20});
  };
  const auto found = search(model, 2, {.beam = 2, .n_best = 2, .max_length_factor = 1, .max_length_extra = 2}).first;
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].ids, std::vector<std::int32_t>{4});
  EXPECT_TRUE(found[0].complete);
  EXPECT_EQ(found[1].ids, (std::vector<std::int32_t>{3, 3, 3, 3}));
  EXPECT_FALSE(found[1].complete);
  EXPECT_GT(found[1].score, found[0].score);
}

TEST(BeamOptions, PenaltyFormulas) {
  EXPECT_DOUBLE_EQ((BeamOptions{.length_penalty = 0}).penalty(17), 1);
  EXPECT_DOUBLE_EQ((BeamOptions{.length_penalty = 1}).penalty(17), 17);
  EXPECT_DOUBLE_EQ((BeamOptions{.length_formula = LengthFormula::gnmt, .length_penalty = 1}).penalty(7), 2);
  // By hand, for three pieces and </s> of log-probability -2.4: fairseq, Marian (--normalize) and transformers divide
  // by 4^a, CTranslate2 by 3^a, GNMT, OpenNMT-py (wu) and tensor2tensor by 1.5^a.
  const auto score = [](LengthFormula formula, double exponent) {
    return -2.4 / BeamOptions{.length_formula = formula, .length_penalty = exponent}.penalty(4);
  };
  EXPECT_DOUBLE_EQ(score(LengthFormula::power, 1), -0.6);
  EXPECT_DOUBLE_EQ(score(LengthFormula::pieces, 1), -0.8);
  EXPECT_DOUBLE_EQ(score(LengthFormula::gnmt, 1), -1.6);
  EXPECT_DOUBLE_EQ(score(LengthFormula::power, 0.5), -1.2);
  EXPECT_NEAR(score(LengthFormula::pieces, 0.6), -1.241476, 1e-6);
  EXPECT_NEAR(score(LengthFormula::gnmt, 0.6), -1.881726, 1e-6);
  const BeamOptions pieces{.length_formula = LengthFormula::pieces};
  EXPECT_DOUBLE_EQ(pieces.penalty(4, false), 4) << "a translation that was cut has no </s>";
  EXPECT_DOUBLE_EQ(pieces.penalty(1), 1);
  EXPECT_EQ((BeamOptions{.max_length_factor = 1.5, .max_length_extra = 4}).max_length(7), 14);
  EXPECT_EQ((BeamOptions{.max_length_factor = 0, .max_length_extra = 0}).max_length(7), 1);
}

TEST(BeamOptions, RefusesInvalidValues) {
  const auto message = [](const BeamOptions& options) -> std::string {
    try {
      options.check();
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(message({}), "");
  EXPECT_EQ(message({.beam = 0}), "beam: found 0, expected 1 to 1000");
  EXPECT_EQ(message({.beam = 2, .n_best = 3}), "n-best: found 3, expected at least 1 and at most the beam");
  EXPECT_THAT(message({.length_penalty = -1}), testing::HasSubstr("length-penalty: found -1"));
  EXPECT_THAT(message({.max_length_factor = -1}), testing::HasSubstr("max-length-factor"));
  EXPECT_THAT(message({.max_length_extra = -1}), testing::HasSubstr("max-length-extra"));
  EXPECT_THAT(message({.unk_penalty = -1}), testing::HasSubstr("unk-penalty"));
  EXPECT_THAT(message({.rules = {.min_length = -1}}), testing::HasSubstr("min-length"));
  EXPECT_THAT(message({.rules = {.no_repeat_ngram = 101}}), testing::HasSubstr("no-repeat-ngram: found 101"));
  EXPECT_THAT(message({.rules = {.repetition_penalty = 0.9}}), testing::HasSubstr("repetition-penalty: found 0.9"));
}

}  // namespace
}  // namespace babelring
