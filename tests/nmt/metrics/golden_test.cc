#include <gtest/gtest.h>

#include <regex>

#include "base/files.h"
#include "base/json.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"

namespace babelring {
namespace {

/// Scores of twelve small corpora computed by sacreBLEU 2.6.0.
const json::array& golden_cases() {
  static const json::value document =
      parse_json(read_file(std::string(BABELRING_SOURCE_DIR) + "/tests/golden/metrics.json")).value();
  return document.at("cases").as_array();
}

std::vector<std::string> lines(const json::value& list) {
  std::vector<std::string> texts;
  for (const json::value& text : list.as_array()) texts.emplace_back(text.as_string());
  return texts;
}

std::string without_version(const json::value& signature) {
  return std::regex_replace(std::string(signature.as_string()), std::regex("version:.*"), "");
}

class GoldenTest : public testing::TestWithParam<std::size_t> {
 protected:
  const json::object& golden() const { return golden_cases()[GetParam()].as_object(); }
  std::vector<std::string> hypotheses() const { return lines(golden().at("hypotheses")); }
  std::vector<std::string> references() const { return lines(golden().at("references")); }
  template <class Check>
  int for_each_expected(std::string_view metric, Check check) const {
    int checked = 0;
    for (const json::value& entry : golden().at("expected").as_array()) {
      if (entry.at("metric").as_string() != metric) continue;
      SCOPED_TRACE(std::string(golden().at("name").as_string()) + ": " +
                   std::string(entry.at("signature").as_string()));
      check(entry.as_object());
      ++checked;
    }
    return checked;
  }
};

TEST_P(GoldenTest, Bleu) {
  const int checked = for_each_expected("bleu", [&](const json::object& expected) {
    BleuOptions options;
    options.tokenizer = parse_tokenizer(expected.at("tokenize").as_string()).value();
    options.smoothing = parse_smoothing(expected.at("smooth").as_string()).value();
    options.lowercase = expected.at("lowercase").as_bool();
    const json::value* value = expected.if_contains("smooth_value");
    if (value && value->is_number()) options.smoothing_value = value->to_number<double>();
    const Bleu bleu(options);
    const BleuScore score = bleu.corpus(hypotheses(), {references()});
    EXPECT_NEAR(score.score, expected.at("score").to_number<double>(), 1e-6);
    EXPECT_EQ(score.text(), expected.at("text").as_string());
    EXPECT_EQ(without_version(json::string(bleu.signature())), without_version(expected.at("signature")));
    if (!expected.contains("counts")) return;
    EXPECT_NEAR(score.brevity_penalty, expected.at("bp").to_number<double>(), 1e-6);
    EXPECT_EQ(score.counts.hypothesis_length, expected.at("sys_len").as_int64());
    EXPECT_EQ(score.counts.reference_length, expected.at("ref_len").as_int64());
    for (std::size_t n = 0; n < BleuCounts::orders; ++n) {
      EXPECT_EQ(score.counts.correct[n], expected.at("counts").at(n).as_int64());
      EXPECT_EQ(score.counts.total[n], expected.at("totals").at(n).as_int64());
      EXPECT_NEAR(score.precisions[n], expected.at("precisions").at(n).to_number<double>(), 1e-6);
    }
  });
  EXPECT_EQ(checked, 11);
}

TEST_P(GoldenTest, Chrf) {
  const int checked = for_each_expected("chrf", [&](const json::object& expected) {
    ChrfOptions options;
    options.word_order = static_cast<int>(expected.at("word_order").as_int64());
    options.lowercase = expected.at("lowercase").as_bool();
    const Chrf chrf(options);
    const double score = chrf.corpus(hypotheses(), {references()});
    EXPECT_NEAR(score, expected.at("score").to_number<double>(), 1e-6);
    EXPECT_EQ(chrf.text(score), expected.at("text").as_string());
    EXPECT_EQ(without_version(json::string(chrf.signature())), without_version(expected.at("signature")));
  });
  EXPECT_EQ(checked, 4);
}

TEST_P(GoldenTest, SentenceBleu) {
  const Bleu bleu(BleuOptions{.effective_order = true});
  const json::array& expected = golden().at("sentence_bleu_13a_effective_order").as_array();
  const std::vector<std::string> hypothesis = hypotheses(), reference = references();
  ASSERT_EQ(expected.size(), hypothesis.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double score = bleu.score(bleu.count(hypothesis[i], {reference[i]})).score;
    EXPECT_NEAR(score, expected[i].to_number<double>(), 1e-6) << hypothesis[i] << " / " << reference[i];
  }
}

INSTANTIATE_TEST_SUITE_P(Corpora, GoldenTest, testing::Range(std::size_t{0}, std::size_t{12}));

TEST(GoldenFileTest, HoldsTwelveCorpora) {
  EXPECT_EQ(golden_cases().size(), 12U);
}

}  // namespace
}  // namespace babelring
