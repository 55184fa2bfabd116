#include "nmt/decode/translator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>
#include <map>

#include "nmt/decode/split_source.h"
#include "nmt/metrics/chrf.h"
#include "tests/nmt/decode/tiny_model.h"

namespace babelring {
namespace {

const std::vector<std::string> lines = {"the red house",
                                        "",
                                        "a boat sails on the sea and the old man sleeps",
                                        "boat",
                                        "   ",
                                        "the sea is old",
                                        "an old man sees a red boat",
                                        "the house sleeps"};

Vocabulary small_vocabulary() {
  std::size_t next = 0;
  const auto give = [&](std::string& line) {
    if (next == 8 * lines.size()) return false;
    line = lines[next++ % lines.size()];
    return true;
  };
  return Vocabulary::from_bytes(train_vocabulary({.size = 40}, give), "test vocabulary");
}

class TranslatorTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  Vocabulary vocabulary_ = small_vocabulary();
  TinyModel tiny_{*backend_, vocabulary_.size()};
  Translator translator_{tiny_.transformer, vocabulary_, *backend_};
};

TEST_F(TranslatorTest, KeepsTheOrderAndEmptyLines) {
  const auto translations = translator_.translate(lines, {});
  ASSERT_EQ(translations.size(), lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> alone = {lines[i]};
    const Translation expected = translator_.translate(alone, {}).at(0);
    EXPECT_EQ(translations[i].text(), expected.text()) << lines[i];
    EXPECT_EQ(translations[i].n_best.empty(), lines[i].find_first_not_of(' ') == std::string::npos) << lines[i];
    EXPECT_EQ(translations[i].source_pieces, std::ssize(vocabulary_.encode(lines[i])));
  }
  EXPECT_EQ(translations[1].text(), "");
}

TEST_F(TranslatorTest, DoesNotDependOnBatchSize) {
  const auto expected = translator_.translate(lines, {.beam = {.beam = 3}});
  for (const std::int64_t tokens : {1, 17, 40}) {
    for (const std::int64_t sentences : {1, 3}) {
      const auto found =
          translator_.translate(lines, {.beam = {.beam = 3}, .batch_tokens = tokens, .batch_sentences = sentences});
      for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(found[i].text(), expected[i].text());
    }
  }
}

TEST_F(TranslatorTest, TranslatesIdsLikeTheirText) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  const auto from_ids = translator_.translate_ids(spans_of(ids), {});
  const auto from_text = translator_.translate(lines, {});
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(from_ids[i].text(), from_text[i].text());
}

TEST_F(TranslatorTest, TellsAFollowerOfEachStepAndLine) {
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& line : lines) ids.push_back(vocabulary_.encode(line));
  const auto expected = translator_.translate(lines, {});
  // Some lines are split, and batches are smaller than the lines.
  const TranslateOptions options{.batch_tokens = 20, .max_source_pieces = 8};
  const auto split = translator_.translate(lines, options);
  std::vector<std::string> finished(lines.size()), last(lines.size());
  std::vector<int> times(lines.size()), steps(lines.size());
  const TranslationFollower follower{.step =
                                         [&](std::size_t line, const std::function<std::string()>& text) {
                                           EXPECT_EQ(times[line], 0) << "not after the line is finished";
                                           ++steps[line];
                                           last[line] = text();
                                         },
                                     .finished =
                                         [&](std::size_t line, const Translation& translation) {
                                           ++times[line];
                                           finished[line] = translation.text();
                                         }};
  for (const auto& [with, result] : {std::pair(TranslateOptions{}, expected), std::pair(options, split)}) {
    std::ranges::fill(times, 0);
    std::ranges::fill(steps, 0);
    const auto sources = spans_of(ids);
    const auto found = translator_.translate_lines({.ids = sources}, with, follower);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      EXPECT_EQ(found[i].text(), result[i].text());
      EXPECT_EQ(finished[i], result[i].text());
      EXPECT_EQ(times[i], 1);
      EXPECT_EQ(steps[i] > 0, result[i].parts > 0) << lines[i];
    }
  }
  EXPECT_FALSE(last[2].empty());
}

TEST_F(TranslatorTest, ReturnsTheNBestInOrder) {
  for (const Translation& translation : translator_.translate(lines, {.beam = {.beam = 4, .n_best = 4}})) {
    if (translation.n_best.empty()) continue;
    ASSERT_EQ(translation.n_best.size(), 4U);
    EXPECT_EQ(translation.text(), translation.n_best.front().text);
    for (std::size_t k = 1; k < translation.n_best.size(); ++k) {
      const Rendering &better = translation.n_best[k - 1], &worse = translation.n_best[k];
      EXPECT_TRUE(better.complete || !worse.complete);
      EXPECT_TRUE(better.complete != worse.complete || better.score >= worse.score);
    }
  }
}

TEST_F(TranslatorTest, SplitsLongLinesAndJoinsTheirParts) {
  const auto ids = vocabulary_.encode(lines[2]);
  ASSERT_GT(ids.size(), 6U);
  const TranslateOptions options{.beam = {.beam = 3, .n_best = 2}, .max_source_pieces = 6};
  const auto whole = translator_.translate_ids(spans_of({ids}), {}).at(0);
  EXPECT_EQ(whole.parts, 1);
  EXPECT_FALSE(whole.cut_inside_sentence);
  const auto translations = translator_.translate({"boat", lines[2], "", lines[0]}, options);
  EXPECT_EQ(translations[0].text(), translator_.translate({"boat"}, options).at(0).text());
  EXPECT_EQ(translations[2].parts, 0);
  const Translation& split = translations[1];
  EXPECT_EQ(split.source_pieces, std::ssize(ids));
  EXPECT_TRUE(split.cut_inside_sentence);
  const auto parts = split_source(ids, vocabulary_, 6).parts;
  EXPECT_EQ(split.parts, std::ssize(parts));
  std::vector<std::string> texts;
  double log_probability = 0;
  for (const Translation& part : translator_.translate_ids(parts, options)) {
    texts.push_back(part.n_best.at(1).text);
    log_probability += part.n_best.at(1).log_probability;
  }
  ASSERT_EQ(split.n_best.size(), 2U);
  EXPECT_EQ(split.n_best[1].text, join_parts(texts));
  EXPECT_DOUBLE_EQ(split.n_best[1].log_probability, log_probability);
}

TEST_F(TranslatorTest, AlignsEveryTranslationAndThePartsOfALine) {
  TranslateOptions options{.beam = {.beam = 3, .n_best = 2}, .max_source_pieces = 6, .align = AttentionChoice{}};
  const auto translations = translator_.translate(lines, options);
  options.batch_sentences = 1;
  const auto alone = translator_.translate(lines, options);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(translations[i].source_ids, vocabulary_.encode(lines[i]));
    for (std::size_t k = 0; k < translations[i].n_best.size(); ++k) {
      const Rendering& rendering = translations[i].n_best[k];
      std::int64_t source = 0, target = 0;
      ASSERT_EQ(std::ssize(rendering.attention.parts), translations[i].parts);
      for (std::size_t p = 0; p < rendering.attention.parts.size(); ++p) {
        const Attention::Part& part = rendering.attention.parts[p];
        EXPECT_EQ(part.first_source, source);
        EXPECT_EQ(part.weights, alone[i].n_best[k].attention.parts[p].weights) << "another batch";
        source += part.source_pieces;
        target += part.target_pieces();
      }
      EXPECT_EQ(source, translations[i].source_pieces);
      EXPECT_EQ(target, std::ssize(rendering.pieces()));
    }
  }
  EXPECT_TRUE(translator_.translate(lines, {}).at(0).n_best.at(0).attention.parts.empty()) << "not asked for";
}

/// Texts and scores of all renderings of a line.
std::vector<std::pair<std::string, double>> renderings(const Translation& translation) {
  std::vector<std::pair<std::string, double>> all;
  for (const Rendering& rendering : translation.n_best) all.emplace_back(rendering.text, rendering.score);
  return all;
}

TEST_F(TranslatorTest, SamplesDependOnTheNumberOfTheLineOnly) {
  for (const bool distinct : {false, true}) {
    TranslateOptions options{.sample = DrawOptions{.samples = 3, .distinct = distinct, .seed = 2},
                             .max_source_pieces = 6};
    const auto expected = translator_.translate(lines, options);
    EXPECT_EQ(expected[2].n_best.size(), 3U);
    EXPECT_GT(expected[2].parts, 1);
    EXPECT_TRUE(expected[1].n_best.empty());
    options.batch_tokens = 7;
    for (std::size_t first = 0; first < lines.size(); first += 3) {  // buffers of three lines
      const std::vector<std::string> some(
          lines.begin() + static_cast<std::ptrdiff_t>(first),
          lines.begin() + static_cast<std::ptrdiff_t>(std::min(first + 3, lines.size())));
      const auto found = translator_.translate(some, options, {}, static_cast<std::int64_t>(first));
      for (std::size_t i = 0; i < some.size(); ++i) {
        EXPECT_EQ(renderings(found[i]), renderings(expected[first + i])) << lines[first + i];
      }
    }
    options.sample->seed = 3;
    EXPECT_NE(renderings(translator_.translate(lines, options)[0]), renderings(expected[0]));
  }
}

TEST_F(TranslatorTest, DrawsEqualLinesAndPartsSeparately) {
  const std::vector<std::string> twice = {"boat", "boat"};
  const TranslateOptions options{.sample = DrawOptions{.temperature = 3}, .max_source_pieces = 3};
  const auto found = translator_.translate(twice, options);
  EXPECT_NE(found[0].text(), found[1].text());
  const auto ids = vocabulary_.encode("red");
  std::vector<std::int32_t> repeated = ids;
  repeated.insert(repeated.end(), ids.begin(), ids.end());
  const TranslateOptions split{.sample = DrawOptions{.temperature = 3}, .max_source_pieces = std::ssize(ids)};
  const Translation parts = translator_.translate_ids(spans_of({repeated}), split).at(0);
  ASSERT_EQ(parts.parts, 2);
  const std::string first = translator_.translate_ids(spans_of({ids}), split).at(0).text();
  EXPECT_TRUE(parts.text().starts_with(first)) << parts.text();
  EXPECT_NE(parts.text(), join_parts({first, first}));
}

TEST_F(TranslatorTest, ChoosesTheSampleOfLeastRisk) {
  const DrawOptions draw{.samples = 12, .temperature = 0.8, .seed = 4};
  const BeamOptions beam{.beam = 4};
  const auto sampled = translator_.translate(lines, {.beam = beam, .sample = draw});
  const auto searched = translator_.translate(lines, {.beam = {.beam = 4, .n_best = 4}});
  for (const bool beam_candidates : {false, true}) {
    const auto chosen = translator_.translate(
        lines, {.beam = beam, .sample = draw, .mbr = MbrOptions{.n_best = 3, .beam_candidates = beam_candidates}});
    for (std::size_t i = 0; i < lines.size(); ++i) {
      std::map<std::string, double> expected;  // from the definition
      const Chrf chrf;
      const auto& samples = sampled[i].n_best;
      const auto mean = [&](const std::string& text, std::size_t without) {
        double sum = 0;
        for (std::size_t k = 0; k < samples.size(); ++k) {
          if (k != without) sum += chrf.score(chrf.count(text, {samples[k].text}));
        }
        return sum / static_cast<double>(samples.size() - (without < samples.size() ? 1 : 0));
      };
      for (std::size_t k = 0; k < samples.size(); ++k) expected[samples[k].text] = mean(samples[k].text, k);
      for (const Rendering& other : searched[i].n_best) {
        if (beam_candidates) expected.try_emplace(other.text, mean(other.text, samples.size()));
      }
      std::vector<double> best;
      for (const auto& [text, score] : expected) best.push_back(score);
      std::ranges::sort(best, std::greater());
      best.resize(std::min<std::size_t>(best.size(), 3));
      ASSERT_EQ(chosen[i].n_best.size(), best.size());
      for (std::size_t k = 0; k < best.size(); ++k) {
        EXPECT_NEAR(chosen[i].n_best[k].score, best[k], 1e-9);
        EXPECT_NEAR(expected.at(chosen[i].n_best[k].text), best[k], 1e-9);
      }
    }
  }
  EXPECT_THROW(translator_.translate(lines, {.mbr = MbrOptions{}}), UsageFailure);
  EXPECT_THROW(translator_.translate(lines, {.sample = DrawOptions{.distinct = true}, .mbr = MbrOptions{}}),
               UsageFailure);
}

TEST_F(TranslatorTest, RefusesInvalidOptionsAndMismatchedModels) {
  EXPECT_THROW(translator_.translate(lines, {.batch_tokens = 0}), UsageFailure);
  EXPECT_THROW(translator_.translate(lines, {.batch_sentences = 0}), UsageFailure);
  EXPECT_THROW(translator_.translate(lines, {.max_source_pieces = 0}), UsageFailure);
  EXPECT_THROW(translator_.translate(lines, {.beam = {.beam = 2, .n_best = 3}}), UsageFailure);
  EXPECT_THROW(translator_.translate(lines, {.sample = DrawOptions{.top_p = 2}}), UsageFailure);
  const TinyModel other(*backend_, vocabulary_.size() + 1);
  EXPECT_THROW(Translator(other.transformer, vocabulary_, *backend_), Failure);
}

}  // namespace
}  // namespace babelring
