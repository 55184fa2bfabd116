#include "nmt/decode/constraints.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

#include "base/failure.h"
#include "nmt/decode/beam_search.h"
#include "nmt/decode/glossary.h"
#include "tests/nmt/decode/tiny_model.h"
#include "tests/nmt/decode/uncached_search.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

using Ids = std::vector<std::int32_t>;

class ConstraintsTest : public testing::Test {
 protected:
  static Vocabulary trained() {
    const std::vector<std::string> lines = {"der hund und der bund", "das kind und der wind",
                                            "hunde und kinder, winde und bunde.", "犬 と 猫"};
    std::size_t next = 0;
    return Vocabulary::from_bytes(train_vocabulary({.size = 50},
                                                   [&](std::string& line) {
                                                     if (next == lines.size()) return false;
                                                     line = lines[next++];
                                                     return true;
                                                   }),
                                  "small");
  }
  Ids ids_of(std::string_view text) const { return vocabulary.encode(text, TextSide::target); }

  /// The pieces that may follow, if all are equally likely but for those in `ruled_out`.
  std::vector<std::string> allowed(const Constraints& constraints, const Ids& ids, const Ids& ruled_out = {}) const {
    Constraints::Met met;
    for (std::size_t i = 0; i < ids.size(); ++i) met = constraints.after(met, std::span(ids).first(i), ids[i]);
    std::vector<float> original(texts.size(), -1), scores = original;
    for (const std::int32_t id : ruled_out) scores[static_cast<std::size_t>(id)] = impossible;
    constraints.apply(met, ids, original, scores);
    std::vector<std::string> pieces;
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
      if (scores[static_cast<std::size_t>(id)] != impossible) pieces.push_back(vocabulary.piece(id));
    }
    return pieces;
  }

  static constexpr float impossible = -std::numeric_limits<float>::infinity();
  const Vocabulary vocabulary = trained();
  const PieceTexts texts{vocabulary};
};

TEST_F(ConstraintsTest, APrefixForcesItsWordsAndThenAnyCutOfTheRest) {
  Constraints constraints(texts);
  EXPECT_EQ(require_prefix("der hun", "prefix", vocabulary, texts, constraints), std::nullopt);
  EXPECT_THAT(allowed(constraints, {}), testing::ElementsAre("▁der"));
  Ids ids = ids_of("der");
  const std::vector<std::string> next = allowed(constraints, ids);
  const std::string rest = "▁hun";
  EXPECT_THAT(next, testing::Contains("▁"));
  for (const std::string& piece : next) EXPECT_TRUE(piece.starts_with(rest) || rest.starts_with(piece)) << piece;
  ids.push_back(*texts.find("▁hund"));
  EXPECT_EQ(allowed(constraints, ids).size(), texts.size()) << "nothing is forced beyond the prefix";
  ids.back() = *texts.find("▁");
  EXPECT_THAT(allowed(constraints, ids), testing::Contains("h"));
  EXPECT_THAT(allowed(constraints, ids), testing::Not(testing::Contains("</s>")));
  const Ids ruled_out = {*texts.find("h")};
  EXPECT_THAT(allowed(constraints, ids, ruled_out), testing::Not(testing::Contains("h"))) << "another cut is left";
  EXPECT_THAT(allowed(constraints, {}, {*texts.find("▁der")}), testing::ElementsAre("▁der")) << "rules give way";
}

TEST_F(ConstraintsTest, ASpaceAtTheEndCompletesTheWord) {
  Constraints constraints(texts);
  EXPECT_EQ(require_prefix("  der   hund ", "prefix", vocabulary, texts, constraints), std::nullopt);
  for (const std::string& piece : allowed(constraints, ids_of("der hund")))
    EXPECT_TRUE(piece.starts_with("▁")) << piece;
  Constraints none(texts);
  EXPECT_EQ(require_prefix("", "prefix", vocabulary, texts, none), std::nullopt);
  EXPECT_EQ(require_prefix("   ", "prefix", vocabulary, texts, none), std::nullopt);
  EXPECT_EQ(none.prefix_pieces(), 0);
  EXPECT_EQ(require_prefix("der §", "prefix[3]", vocabulary, texts, constraints),
            "prefix[3]: found 'der §', which has characters that the vocabulary lacks");
}

TEST_F(ConstraintsTest, APhraseIsMetAsWholeWords) {
  Constraints constraints(texts);
  const Ids phrase = ids_of("der hund");
  ASSERT_EQ(phrase.size(), 2U);
  constraints.add_phrase(phrase);
  constraints.add_phrase(phrase);  // changes nothing
  EXPECT_EQ(constraints.phrase_pieces(), 2);
  const auto met = [&](const Ids& ids) {
    Constraints::Met all;
    for (std::size_t i = 0; i < ids.size(); ++i) all = constraints.after(all, std::span(ids).first(i), ids[i]);
    return all.pieces;
  };
  const std::int32_t e = *texts.find("e"), stop = *texts.find("."), und = *texts.find("▁und");
  EXPECT_EQ(met({phrase[0]}), 1);
  EXPECT_EQ(met({phrase[0], und}), 0);
  EXPECT_EQ(met({phrase[0], phrase[0]}), 1);
  EXPECT_EQ(met({phrase[0], phrase[0], phrase[1]}), 2);
  EXPECT_EQ(met({phrase[0], phrase[1], e}), 0) << "der hunde";
  EXPECT_EQ(met({phrase[0], phrase[1], stop, e}), 2) << "der hund.e";
  EXPECT_EQ(met({phrase[0], phrase[1], e, phrase[0], phrase[1]}), 2);
  EXPECT_THAT(allowed(constraints, {phrase[0]}), testing::Not(testing::Contains("</s>")));
  EXPECT_THAT(allowed(constraints, phrase), testing::Contains("</s>"));
  EXPECT_THAT(constraints.wanted({}, Ids{phrase[0]}), testing::UnorderedElementsAre(phrase[0], phrase[1]));
  EXPECT_THAT(allowed(constraints, {und}, {phrase[0]}), testing::Contains("▁der")) << "rules give way";
}

/// Log-probabilities of the next token that depend on the last one and the length only.
NextModel made_up(std::int64_t vocabulary) {
  return [=](const Ids& prefix) {
    std::vector<double> logits;
    for (std::int64_t id = 0; id < vocabulary; ++id) {
      const auto last = static_cast<double>(prefix.empty() ? 0 : prefix.back());
      logits.push_back(3 * std::sin(1.7 * static_cast<double>(id) + 2.3 * last + static_cast<double>(prefix.size())));
    }
    return log_softmax(std::move(logits));
  };
}

/// True if the phrase is in `ids` before a piece that continues no word.
bool holds(const Ids& ids, const Ids& phrase, const PieceTexts& texts) {
  for (auto at = ids.begin();; ++at) {
    at = std::search(at, ids.end(), phrase.begin(), phrase.end());
    if (at == ids.end()) return false;
    const auto end = at + std::ssize(phrase);
    if (end == ids.end() || !texts.continues_word(*end)) return true;
  }
}

std::vector<Hypothesis> search(const NextModel& model, const BeamOptions& options, const Constraints& constraints) {
  SentenceBeam beam(options, 0, &constraints);
  while (!beam.done()) {
    std::vector<std::vector<float>> scores;
    std::vector<Ids> ids;
    for (const SentenceBeam::Live& live : beam.live()) {
      const std::vector<double> all = model(live.ids);
      const std::vector<float> original(all.begin(), all.end());
      std::vector<float> ruled = original;
      constraints.apply(live.met, live.ids, original, ruled);
      best_tokens(ruled, beam.next_tokens_needed(), scores.emplace_back(), ids.emplace_back());
      for (const std::int32_t id : constraints.wanted(live.met, live.ids)) {
        if (std::ranges::find(ids.back(), id) != ids.back().end()) continue;
        ids.back().push_back(id);
        scores.back().push_back(ruled[static_cast<std::size_t>(id)]);
      }
    }
    std::vector<NextTokens> next;
    for (std::size_t i = 0; i < ids.size(); ++i) next.push_back({scores[i], ids[i]});
    beam.advance(next);
  }
  return beam.n_best();
}

/// All complete translations of up to three pieces that hold the phrases, by score.
std::vector<Hypothesis> every_translation(const NextModel& model, const BeamOptions& options, std::int32_t vocabulary,
                                          const std::vector<Ids>& phrases, const PieceTexts& texts) {
  std::vector<Hypothesis> open(1), complete;
  for (int length = 0; length < 4; ++length) {
    std::vector<Hypothesis> longer;
    for (const Hypothesis& hypothesis : open) {
      const std::vector<double> next = model(hypothesis.ids);
      Hypothesis end = hypothesis;
      end.log_probability += next[eos_id];
      end.score = end.log_probability / options.penalty(length + 1);
      const bool all = std::ranges::all_of(phrases, [&](const Ids& phrase) { return holds(end.ids, phrase, texts); });
      if (length > 0 && all) complete.push_back(end);
      for (std::int32_t id = 0; id < vocabulary; ++id) {
        if (id == bos_id || id == eos_id) continue;
        longer.push_back(hypothesis);
        longer.back().ids.push_back(id);
        longer.back().log_probability += next[static_cast<std::size_t>(id)];
      }
    }
    open = std::move(longer);
  }
  std::ranges::stable_sort(complete, std::ranges::greater(), &Hypothesis::score);
  return complete;
}

TEST_F(ConstraintsTest, AWideBeamFindsTheBestOfAllTranslationsWithThePhrases) {
  constexpr std::int32_t pieces = 8;
  const NextModel model = made_up(pieces);
  const BeamOptions options{.beam = 1000, .n_best = 5, .max_length_factor = 0, .max_length_extra = 4};
  for (const std::vector<Ids>& phrases :
       {std::vector<Ids>{{5}}, {{7, 3}}, {{4}, {7}}, {{3, 3}, {3}}, {{6, 5, 7}}, {{3, 4}, {4, 5}}}) {
    Constraints constraints(texts);
    for (const Ids& phrase : phrases) constraints.add_phrase(phrase);
    auto found = search(model, options, constraints);
    std::erase_if(found, [](const Hypothesis& hypothesis) { return !hypothesis.complete; });
    const auto expected = every_translation(model, options, pieces, phrases, texts);
    ASSERT_EQ(found.size(), std::min<std::size_t>(5, expected.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].ids, expected[i].ids);
      EXPECT_NEAR(found[i].score, expected[i].score, 1e-5);
      EXPECT_TRUE(found[i].complete);
    }
  }
}

TEST_F(ConstraintsTest, NarrowBeamsHoldEveryPhrase) {
  const NextModel model = made_up(40);
  for (const int beam : {1, 2, 5}) {
    for (std::int32_t first = 3; first < 38; ++first) {
      Constraints constraints(texts);
      const std::vector<Ids> phrases = {{first, first + 1}, {first + 2}, {40 - first, 5, 6}};
      for (const Ids& phrase : phrases) constraints.add_phrase(phrase);
      const BeamOptions options{.beam = beam, .n_best = beam, .max_length_factor = 0, .max_length_extra = 20};
      const auto found = search(model, options, constraints);
      ASSERT_FALSE(found.empty());
      for (const Hypothesis& hypothesis : found) {
        if (!hypothesis.complete && &hypothesis != &found.front()) continue;
        for (const Ids& phrase : phrases) EXPECT_TRUE(holds(hypothesis.ids, phrase, texts)) << beam << ' ' << first;
      }
    }
  }
}

TEST_F(ConstraintsTest, ASearchOfTheModelHoldsPrefixAndPhrases) {
  const auto backend = make_closed_backend();
  const TinyModel tiny(*backend, vocabulary.size());
  const auto sources = made_up_sources({5, 3, 0, 9}, vocabulary.size());
  const BeamOptions options{.beam = 3, .n_best = 3, .max_length_factor = 1, .max_length_extra = 12};
  BeamSearch plain(tiny.transformer, *backend);
  const auto expected = plain.search(spans_of(sources), options);
  std::vector<Constraints> constraints(3, Constraints(texts));
  EXPECT_EQ(require_prefix("das ki", "prefix", vocabulary, texts, constraints[0]), std::nullopt);
  constraints[1].add_phrase(ids_of("und der"));
  EXPECT_EQ(require_prefix("hund", "prefix", vocabulary, texts, constraints[2]), std::nullopt);
  constraints[2].add_phrase(ids_of("wind"));
  const std::vector<const Constraints*> each = {&constraints[0], nullptr, &constraints[1], &constraints[2]};
  const auto found = plain.search(spans_of(sources), options, {.constraints = each});
  const auto text = [&](std::size_t sentence) { return vocabulary.decode(found[sentence].front().ids); };
  EXPECT_TRUE(text(0).starts_with("das ki")) << text(0);
  EXPECT_EQ(found[1].front().ids, expected[1].front().ids) << "without constraints nothing changes";
  EXPECT_EQ(found[1].front().log_probability, expected[1].front().log_probability);
  EXPECT_TRUE(holds_words(text(2), "und der")) << text(2);
  EXPECT_TRUE(text(3).starts_with("hund")) << text(3);
  EXPECT_TRUE(holds_words(text(3), "wind")) << text(3);
}

TEST_F(ConstraintsTest, ABeginningOfTheBestTranslationReturnsTheWhole) {
  const auto backend = make_closed_backend();
  const TinyModel tiny(*backend, vocabulary.size());
  const auto sources = made_up_sources({5, 1, 13, 0, 7, 2}, vocabulary.size());
  BeamSearch greedy(tiny.transformer, *backend);
  const BeamOptions options{.beam = 1};
  const auto expected = greedy.search(spans_of(sources), options);
  std::vector<Constraints> constraints(sources.size(), Constraints(texts));
  std::vector<const Constraints*> each;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Ids& ids = expected[i].front().ids;
    const auto half = static_cast<std::ptrdiff_t>(ids.size() / 2);
    constraints[i].set_prefix(Ids(ids.begin(), ids.begin() + half), "");
    each.push_back(&constraints[i]);
  }
  const auto found = greedy.search(spans_of(sources), options, {.constraints = each});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    EXPECT_EQ(found[i].front().ids, expected[i].front().ids);
    EXPECT_EQ(found[i].front().log_probability, expected[i].front().log_probability);
  }
}

TEST_F(ConstraintsTest, ATermOccursAsWholeWords) {
  const Glossary glossary(
      {{"hund", "hund"}, {"der hund", "das kind"}, {"Wind", "wind"}, {"kind", "bund"}, {"猫", "犬"}}, "glossary",
      vocabulary, texts);
  const auto sources = [&](std::string_view text) {
    std::vector<std::string> found;
    for (const std::size_t number : glossary.occurring(text)) found.push_back(glossary.term(number).first);
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(sources("ein hund, der bellt"), ElementsAre("hund"));
  EXPECT_THAT(sources("HUND!"), ElementsAre("hund"));
  EXPECT_THAT(sources("Der Hund"), ElementsAre("der hund")) << "the longer one";
  EXPECT_THAT(sources("der  Hund und ein Hund"), ElementsAre("hund", "der hund"));
  EXPECT_THAT(sources("hunde und unhund"), ElementsAre());
  EXPECT_THAT(sources("der wind"), ElementsAre()) << "as it is written";
  EXPECT_THAT(sources("der Wind des Kindes, ein Kind"), ElementsAre("Wind", "kind"));
  EXPECT_THAT(sources("犬と猫がいる"), ElementsAre("猫"));
  EXPECT_EQ(vocabulary.piece(glossary.pieces(4).front()), "犬") << "no space stands before it";
}

TEST_F(ConstraintsTest, TermsWithoutPiecesAreRefused) {
  const auto refusal = [&](const std::vector<Term>& terms) -> std::string {
    try {
      const Glossary glossary(terms, "glossary", vocabulary, texts);
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({{"hund", "wind"}, {"", "kind"}}),
            "glossary: term 2: found '', 'kind', expected text on both sides");
  EXPECT_EQ(refusal({{"hund", " "}}), "glossary: term 1: found 'hund', ' ', expected text on both sides");
  EXPECT_EQ(refusal({{"hund", "§"}}),
            "glossary: term 1: found 'hund', '§', whose translation has characters that the vocabulary lacks");
  EXPECT_EQ(refusal({{"hund", "wind"}, {"hund ", "kind"}}),
            "glossary: term 2: found 'hund ', 'kind', but term 1 is the same");
}

}  // namespace
}  // namespace babelring
