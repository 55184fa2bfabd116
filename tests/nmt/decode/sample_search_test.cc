#include "nmt/decode/sample_search.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <set>

#include "base/failure.h"
#include "nmt/core/random.h"
#include "nmt/decode/beam_search.h"
#include "tests/nmt/decode/tiny_model.h"
#include "tests/nmt/decode/uncached_search.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;
using Distribution = std::map<Ids, double>;  // complete ones end in </s>

constexpr std::int64_t few_pieces = 6;

/// A model of six pieces with all its translations of one source of up to three tokens.
class SampleSearchTest : public testing::Test {
 protected:
  std::vector<std::vector<Hypothesis>> draw(std::size_t sources, const DrawOptions& options,
                                            std::uint64_t first_key = 0) {
    std::vector<std::uint64_t> keys;
    for (std::size_t i = 0; i < sources; ++i) keys.push_back(derive_seed(options.seed, first_key + i));
    const std::vector<Ids> same(sources, source_);
    return sample_search(search_.decoder(), spans_of(same), keys, beam_, options);
  }

  /// The probability of each translation, with the rules of draws applied to the log-probabilities of a whole
  /// vocabulary. Those of the model come from its cached decoder, which other tests hold against uncached passes.
  Distribution exact(const DrawOptions& options) {
    Distribution all;
    extend({}, 1, options, all);
    return all;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  TinyModel tiny_{*backend_, few_pieces};
  BeamSearch search_{tiny_.transformer, *backend_};
  Ids source_ = {4, 5, 3};
  BeamOptions beam_{.max_length_factor = 0, .max_length_extra = 3, .unk_penalty = 0.5};

 private:
  std::vector<double> next_of(const Ids& prefix) {
    const std::vector<Ids> one = {source_};
    search_.decoder().start(spans_of(one), 1, 4);
    for (std::size_t i = 0; i <= prefix.size(); ++i) {
      search_.decoder().step_all({{{.token = i == 0 ? bos_id : prefix[i - 1]}}});
    }
    const std::span<const float> all = search_.decoder().log_probabilities(0);
    std::vector<double> next(all.begin(), all.end());
    next[unk_id] -= beam_.unk_penalty;
    next[bos_id] = -INFINITY;
    if (prefix.empty()) next[eos_id] = -INFINITY;
    if (std::ssize(prefix) < beam_.rules.min_length) next[eos_id] = -INFINITY;
    return next;
  }

  static std::vector<double> shaped(std::vector<double> next, const DrawOptions& options) {
    std::vector<std::size_t> order(next.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return next[a] > next[b]; });
    for (double& value : next) value = std::exp(value / options.temperature);
    const auto cut = [&](std::size_t kept) {
      for (std::size_t i = kept; i < order.size(); ++i) next[order[i]] = 0;
      double sum = 0;
      for (const double value : next) sum += value;
      for (double& value : next) value /= sum;
    };
    cut(options.top_k > 0 ? static_cast<std::size_t>(options.top_k) : order.size());
    double sum = 0;
    std::size_t kept = 0;
    while (kept < order.size() && sum < options.top_p) sum += next[order[kept++]];
    cut(kept);
    return next;
  }

  void extend(const Ids& prefix, double probability, const DrawOptions& options, Distribution& all) {
    const std::vector<double> next = shaped(next_of(prefix), options);
    for (std::size_t id = 0; id < next.size(); ++id) {
      if (next[id] == 0) continue;
      Ids longer = prefix;
      longer.push_back(static_cast<std::int32_t>(id));
      if (id == eos_id || longer.size() == 3) {
        all[longer] += probability * next[id];
      } else {
        extend(longer, probability * next[id], options, all);
      }
    }
  }
};

Ids whole(const Hypothesis& drawn) {
  Ids ids = drawn.ids;
  if (drawn.complete) ids.push_back(eos_id);
  return ids;
}

/// Pearson's statistic of counts against probabilities; rare outcomes count as one. Expects it to be below the quantile
/// 0.999 of its distribution, by the approximation of Wilson and Hilferty 1931, and each outcome to be possible.
template <class Outcome>
void expect_distribution(const std::map<Outcome, double>& expected, const std::map<Outcome, double>& found,
                         double draws) {
  double sum = 0, seen_at_all = 0, rare_expected = 0, rare_found = 0, cells = 0;
  const auto add = [&](double wanted, double seen) {
    sum += (seen - wanted) * (seen - wanted) / wanted;
    ++cells;
  };
  for (const auto& [outcome, probability] : expected) {
    const auto at = found.find(outcome);
    const double seen = at == found.end() ? 0 : at->second, wanted = probability * draws;
    seen_at_all += seen;
    if (wanted >= 5) {
      add(wanted, seen);
    } else {
      rare_expected += wanted, rare_found += seen;
    }
  }
  EXPECT_EQ(seen_at_all, draws) << "an outcome of probability 0 was drawn";
  if (rare_expected > 0) add(std::max(rare_expected, 1e-9), rare_found);
  ASSERT_GE(cells, 2);
  const double freedom = cells - 1, part = 2 / (9 * freedom);
  EXPECT_LT(sum, freedom * std::pow(1 - part + 3.09 * std::sqrt(part), 3)) << cells << " cells";
}

TEST_F(SampleSearchTest, DrawsTranslationsWithTheirProbabilities) {
  for (const DrawOptions& options :
       {DrawOptions{.seed = 11}, DrawOptions{.distinct = true, .seed = 12}, DrawOptions{.temperature = 0.6, .seed = 13},
        DrawOptions{.temperature = 2, .top_k = 3, .seed = 14}, DrawOptions{.temperature = 3, .top_p = 0.7, .seed = 15},
        DrawOptions{.distinct = true, .temperature = 1.5, .top_k = 4, .top_p = 0.9, .seed = 16}}) {
    SCOPED_TRACE(options.seed);
    beam_.rules.min_length = options.seed == 14 ? 2 : 0;
    constexpr std::size_t sources = 20'000;
    Distribution found;
    for (const auto& drawn : draw(sources, options)) ++found[whole(drawn.at(0))];
    expect_distribution(exact(options), found, sources);
  }
}

TEST_F(SampleSearchTest, IndependentDrawsOfASentenceHaveTheProductOfTheirProbabilities) {
  const DrawOptions options{.samples = 2, .top_k = 2, .seed = 4};
  std::map<std::pair<Ids, Ids>, double> expected, found;
  const Distribution one = exact(options);
  for (const auto& [first, p] : one) {
    for (const auto& [second, q] : one) expected[{first, second}] = p * q;
  }
  constexpr std::size_t sources = 20'000;
  for (const auto& drawn : draw(sources, options)) ++found[{whole(drawn.at(0)), whole(drawn.at(1))}];
  expect_distribution(expected, found, sources);
}

TEST_F(SampleSearchTest, DistinctDrawsAreThoseWithoutReplacement) {
  const DrawOptions options{.samples = 2, .distinct = true, .top_k = 2, .seed = 5};
  std::map<std::pair<Ids, Ids>, double> expected, found;
  const Distribution one = exact(options);
  for (const auto& [first, p] : one) {
    for (const auto& [second, q] : one) {
      if (first != second) expected[{first, second}] = p * q / (1 - p);
    }
  }
  constexpr std::size_t sources = 20'000;
  for (const auto& drawn : draw(sources, options)) ++found[{whole(drawn.at(0)), whole(drawn.at(1))}];
  expect_distribution(expected, found, sources);
}

TEST_F(SampleSearchTest, DistinctDrawsDifferAndMoreOfThemOnlyAdd) {
  const auto few = draw(30, {.samples = 3, .distinct = true, .seed = 6});
  const auto many = draw(30, {.samples = 12, .distinct = true, .seed = 6});
  for (std::size_t i = 0; i < many.size(); ++i) {
    std::set<Ids> seen;
    for (const Hypothesis& drawn : many[i]) EXPECT_TRUE(seen.insert(whole(drawn)).second);
    ASSERT_EQ(many[i].size(), 12U);
    for (std::size_t k = 0; k < 3; ++k) EXPECT_EQ(whole(few[i].at(k)), whole(many[i][k]));
  }
  // All translations that there are: two pieces at each of three steps, but no </s> at the first.
  const std::size_t all = exact({.top_k = 2}).size();
  EXPECT_EQ(draw(1, {.samples = 50, .distinct = true, .top_k = 2}).at(0).size(), all);
}

TEST_F(SampleSearchTest, TemperatureZeroIsGreedySearch) {
  const auto backend = make_closed_backend();  // decoding must not access tensor memory on the host
  const TinyModel model(*backend, 101);
  BeamSearch search(model.transformer, *backend);
  const auto sources = made_up_sources({5, 1, 13, 0, 7}, 101);
  const std::vector<std::uint64_t> keys(sources.size());
  for (const int no_repeat : {0, 1}) {  // with rules the whole vocabulary is read
    const BeamOptions greedy{.beam = 1, .length_penalty = 0.6, .rules = {.no_repeat_ngram = no_repeat}};
    const auto expected = search.search(spans_of(sources), greedy);
    for (const bool distinct : {false, true}) {
      const DrawOptions options{.samples = 2, .distinct = distinct, .temperature = 0};
      const auto found = sample_search(search.decoder(), spans_of(sources), keys, greedy, options);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        ASSERT_EQ(found[i].size(), distinct ? 1U : 2U);
        EXPECT_EQ(found[i].back().ids, expected[i][0].ids);
        EXPECT_EQ(found[i].back().token_scores, expected[i][0].token_scores);
        EXPECT_EQ(found[i].back().log_probability, expected[i][0].log_probability);
        EXPECT_EQ(found[i].back().score, expected[i][0].score);
        EXPECT_EQ(found[i].back().complete, expected[i][0].complete);
      }
    }
  }
}

TEST_F(SampleSearchTest, ADrawDependsOnItsKeyOnly) {
  const TinyModel model(*backend_, 101), other(*backend_, 101, NormPosition::post, 8);
  const std::vector<EnsembleMember> members = {{&model.transformer, 1}, {&other.transformer, 2}};
  const auto sources = made_up_sources({5, 1, 13, 0, 7, 2}, 101);
  const std::vector<std::uint64_t> keys = {9, 8, 7, 6, 5, 4};
  for (const std::size_t models : {1U, 2U}) {
    const std::span<const EnsembleMember> all = members;
    EnsembleDecoder decoder(all.first(models), Combination::probabilities, *backend_);
    for (const DrawOptions& options :
         {DrawOptions{.samples = 5}, DrawOptions{.samples = 5, .distinct = true, .temperature = 0.7},
          DrawOptions{.samples = 3, .top_k = 10}, DrawOptions{.samples = 3, .top_p = 0.8}}) {
      const auto together = sample_search(decoder, spans_of(sources), keys, {}, options);
      for (std::size_t i = 0; i < sources.size(); ++i) {
        const std::vector<Ids> one = {sources[i]};
        const auto alone = sample_search(decoder, spans_of(one), std::span(keys).subspan(i, 1), {}, options).at(0);
        ASSERT_EQ(alone.size(), together[i].size());
        for (std::size_t k = 0; k < alone.size(); ++k) {
          EXPECT_EQ(whole(alone[k]), whole(together[i][k]));
          EXPECT_EQ(alone[k].token_scores, together[i][k].token_scores);
        }
      }
      EXPECT_NE(whole(together[0][0]), whole(together[0][1]));
    }
  }
}

TEST_F(SampleSearchTest, TheBestTokensSufficeForTopK) {
  const auto backend = make_closed_backend();  // decoding must not access tensor memory on the host
  const TinyModel model(*backend, 101);
  BeamSearch search(model.transformer, *backend);
  const auto sources = made_up_sources({5, 9, 0, 3}, 101);
  const std::vector<std::uint64_t> keys = {1, 2, 3, 4};
  // A rule that never applies makes the search read the whole vocabulary.
  const BeamOptions plain{.unk_penalty = 2}, whole_vocabulary{.unk_penalty = 2, .rules = {.no_repeat_ngram = 100}};
  const DrawOptions options{.samples = 8, .temperature = 3, .top_k = 7};
  const auto found = sample_search(search.decoder(), spans_of(sources), keys, plain, options);
  const auto expected = sample_search(search.decoder(), spans_of(sources), keys, whole_vocabulary, options);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t k = 0; k < 8; ++k) EXPECT_EQ(whole(found[i].at(k)), whole(expected[i].at(k)));
  }
}

TEST_F(SampleSearchTest, RulesApplyToDraws) {
  beam_ = {.max_length_factor = 0,
           .max_length_extra = 4,
           .unk_penalty = 1000,
           .rules = {.min_length = 2, .no_repeat_ngram = 1, .suppressed = {3}}};
  for (const bool distinct : {false, true}) {
    for (const auto& drawn : draw(200, {.distinct = distinct})) {
      const Ids& ids = drawn.at(0).ids;
      EXPECT_THAT(ids, testing::SizeIs(2));  // 4 and 5 in one order; then only </s> is left
      EXPECT_TRUE(drawn.at(0).complete);
      EXPECT_EQ(std::set<std::int32_t>(ids.begin(), ids.end()), (std::set<std::int32_t>{4, 5}));
    }
  }
  beam_.rules.suppressed = {3, 4, 5, eos_id};  // after <unk> nothing is left
  const auto cut = draw(1, {});
  EXPECT_EQ(cut.at(0).at(0).ids, Ids{unk_id});
  EXPECT_FALSE(cut.at(0).at(0).complete);
}

TEST(DrawOptions, RefusesValuesOutOfRange) {
  EXPECT_THAT([] { DrawOptions{.samples = 0}.check(); },
              ThrowsMessage<UsageFailure>("samples: found 0, expected 1 to 1000"));
  EXPECT_THAT([] { DrawOptions{.temperature = 1e-9}.check(); },
              ThrowsMessage<UsageFailure>("temperature: found 1e-09, expected 0, or 0.001 to 100"));
  EXPECT_THAT([] { DrawOptions{.top_k = -1}.check(); },
              ThrowsMessage<UsageFailure>("top-k: found -1, expected at least 0"));
  EXPECT_THAT([] { DrawOptions{.top_p = 0}.check(); },
              ThrowsMessage<UsageFailure>("top-p: found 0, expected a number above 0, at most 1"));
  EXPECT_THROW(DrawOptions{.temperature = NAN}.check(), UsageFailure);
}

}  // namespace
}  // namespace babelring
