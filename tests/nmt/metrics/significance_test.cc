#include "nmt/metrics/significance.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/failure.h"
#include "base/files.h"
#include "base/json.h"
#include "nmt/metrics/metric.h"

namespace babelring {
namespace {

using Texts = std::vector<std::string>;

/// Scores, intervals and p-values of six small corpora, and draws, computed by sacreBLEU 2.6.0 and numpy 2.2.4.
const json::value& golden_document() {
  static const json::value document =
      parse_json(read_file(std::string(BABELRING_SOURCE_DIR) + "/tests/golden/significance.json")).value();
  return document;
}

std::vector<Texts> text_sets(const json::value& sets) {
  std::vector<Texts> result;
  for (const json::value& set : sets.as_array()) {
    Texts lines;
    for (const json::value& line : set.as_array()) lines.emplace_back(line.as_string());
    result.push_back(std::move(lines));
  }
  return result;
}

bool given(const json::object& options, std::string_view name) {
  const json::value* value = options.if_contains(name);
  return value != nullptr && value->as_bool();
}

std::unique_ptr<Metric> metric_of(const json::object& expected) {
  const json::object& options = expected.at("options").as_object();
  const auto number = [&](std::string_view name, int usual) {
    const json::value* value = options.if_contains(name);
    return value == nullptr ? usual : static_cast<int>(value->as_int64());
  };
  const auto word = [&](std::string_view name, std::string_view usual) {
    const json::value* value = options.if_contains(name);
    return value == nullptr ? std::string(usual) : std::string(value->as_string());
  };
  MetricOptions wanted;
  wanted.bleu = {.tokenizer = parse_tokenizer(word("tokenize", "13a")).value(),
                 .lowercase = given(options, "lowercase"),
                 .smoothing = parse_smoothing(word("smooth_method", "exp")).value()};
  wanted.chrf = {.char_order = number("char_order", 6),
                 .word_order = number("word_order", 0),
                 .beta = number("beta", 2),
                 .lowercase = given(options, "lowercase"),
                 .whitespace = given(options, "whitespace"),
                 .eps_smoothing = given(options, "eps_smoothing")};
  wanted.ter = {.normalized = given(options, "normalized"),
                .no_punctuation = given(options, "no_punct"),
                .asian_support = given(options, "asian_support"),
                .case_sensitive = given(options, "case_sensitive")};
  return make_metric(choice_of(metrics(), std::string(expected.at("metric").as_string())), wanted);
}

std::string unversioned(const json::value& signature) {
  return std::regex_replace(std::string(signature.as_string()), std::regex("version:.*"), "");
}

double number_at(const json::value& object, std::string_view name) {
  return object.at(name).to_number<double>();
}

class SignificanceTest : public testing::TestWithParam<std::size_t> {
 protected:
  const json::object& golden() const { return golden_document().at("cases").at(GetParam()).as_object(); }
  std::int64_t samples(std::string_view name) const { return golden().at(name).as_int64(); }

  template <class Check>
  void for_each_metric(Check check) const {
    const std::vector<Texts> references = text_sets(golden().at("references"));
    const std::vector<Texts> systems = text_sets(golden().at("systems"));
    for (const json::value& expected : golden().at("expected").as_array()) {
      const std::unique_ptr<Metric> metric = metric_of(expected.as_object());
      SCOPED_TRACE(std::string(golden().at("name").as_string()) + ": " + metric->name() + " " +
                   metric->signature(references.size()));
      std::vector<SentenceStatistics> statistics;
      for (const Texts& system : systems) statistics.emplace_back(*metric, system, references);
      check(expected, *metric, statistics, references.size());
    }
  }
};

TEST_P(SignificanceTest, ScoresAndSignatures) {
  for_each_metric([](const json::value& expected, const Metric& metric,
                     const std::vector<SentenceStatistics>& statistics, std::size_t references) {
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      const json::value& system = expected.at("systems").at(i);
      EXPECT_NEAR(statistics[i].score(), number_at(system, "score"), 1e-12 * number_at(system, "score"));
      EXPECT_EQ(unversioned(json::string(metric.signature(references))), unversioned(system.at("signature")));
      const std::vector<double> sums = statistics[i].sums();
      const std::string details = metric.details(sums);
      EXPECT_EQ(
          fmt::format("{} = {:.2f}{}{}", metric.name(), statistics[i].score(), details.empty() ? "" : " ", details),
          system.at("text").as_string());
    }
    const json::array& sentences = expected.at("sentences").as_array();
    ASSERT_EQ(sentences.size(), statistics[0].sentences());
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      EXPECT_NEAR(metric.sentence_score(statistics[0].sentence(i)), sentences[i].to_number<double>(), 1e-10) << i;
    }
  });
}

TEST_P(SignificanceTest, Intervals) {
  for_each_metric([&](const json::value& expected, const Metric& /*metric*/,
                      const std::vector<SentenceStatistics>& statistics, std::size_t /*references*/) {
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      const ConfidenceInterval interval =
          Bootstrap(statistics[i], {.samples = samples("bootstrap_samples")}).interval();
      const json::value& system = expected.at("systems").at(i);
      EXPECT_NEAR(interval.mean, number_at(system, "mean"), 2e-5);  // sacreBLEU sums in another order here
      EXPECT_NEAR(interval.half_width, number_at(system, "ci"), 1e-12);
    }
  });
}

TEST_P(SignificanceTest, PairedTests) {
  for_each_metric([&](const json::value& expected, const Metric& /*metric*/,
                      const std::vector<SentenceStatistics>& statistics, std::size_t /*references*/) {
    const Bootstrap baseline(statistics[0], {.samples = samples("bootstrap_samples")});
    for (std::size_t i = 0; i < statistics.size(); ++i) {
      const json::value &by_bootstrap = expected.at("bs").at(i), &by_randomization = expected.at("ar").at(i);
      const Bootstrap own(statistics[i], {.samples = samples("bootstrap_samples")});
      EXPECT_NEAR(own.interval().mean, number_at(by_bootstrap, "mean"), 1e-12);
      EXPECT_NEAR(own.interval().half_width, number_at(by_bootstrap, "ci"), 1e-12);
      if (i == 0) continue;
      EXPECT_DOUBLE_EQ(own.p_value(baseline), number_at(by_bootstrap, "p"));
      const double p =
          randomization_p_value(statistics[0], statistics[i], {.samples = samples("randomization_samples")});
      EXPECT_DOUBLE_EQ(p, number_at(by_randomization, "p"));
    }
  });
}

/// Resamples of two systems give the p-value that their texts give.
TEST_P(SignificanceTest, ResamplesCompareLikeTheTexts) {
  const std::vector<Texts> references = text_sets(golden().at("references"));
  const std::vector<Texts> systems = text_sets(golden().at("systems"));
  for (const MetricKind kind : {MetricKind::bleu, MetricKind::chrf}) {
    const std::unique_ptr<Metric> metric = make_metric(kind, {});
    const auto stored = [&](const Texts& system) {
      return resamples_of(SentenceStatistics(*metric, system, {references[0]}), references[0]);
    };
    const Resamples baseline = stored(systems[0]);
    const Bootstrap first(SentenceStatistics(*metric, systems[0], {references[0]}), {});
    for (std::size_t i = 1; i < systems.size(); ++i) {
      const SentenceStatistics statistics(*metric, systems[i], {references[0]});
      const Result<ScoreDifference> compared = compare(stored(systems[i]), baseline);
      ASSERT_TRUE(compared.ok()) << compared.error();
      EXPECT_EQ(compared->difference, statistics.score() - baseline.score);
      if (compared->difference == 0) continue;
      EXPECT_EQ(compared->p_value, Bootstrap(statistics, {}).p_value(first));
    }
    EXPECT_EQ(compare(baseline, baseline)->p_value, p_of_equals);
    Texts other = references[0];
    other.front() += " more";
    const Resamples elsewhere = resamples_of(SentenceStatistics(*metric, systems[0], {other}), other);
    EXPECT_EQ(compare(elsewhere, baseline).error(), "other validation set");
  }
}

INSTANTIATE_TEST_SUITE_P(Corpora, SignificanceTest, testing::Range(std::size_t{0}, std::size_t{6}));

TEST(NumpyDrawsTest, EqualsTheGeneratorsOfNumpy) {
  for (const auto& [seed, expected] : golden_document().at("draws").as_object()) {
    NumpyDraws choices(std::stoull(std::string(seed))), coins = choices, large = choices;
    for (const json::value& value : expected.at("choice_3003").as_array())
      EXPECT_EQ(choices.below(3003), value.as_int64());
    for (const json::value& value : expected.at("coins").as_array()) EXPECT_EQ(coins.coin(), value.as_int64() == 1);
    for (const json::value& value : expected.at("choice_4000000000").as_array()) {
      EXPECT_EQ(large.below(4'000'000'000U), value.as_int64()) << "with rejected draws";
    }
  }
}

}  // namespace
}  // namespace babelring
