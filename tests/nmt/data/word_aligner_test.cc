#include "nmt/data/word_aligner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {
namespace {

using Sentences = std::vector<std::vector<std::int32_t>>;
using Pairs = std::vector<AlignedPair>;

TEST(GrowDiagFinalAnd, JoinsTheDirections) {
  // Both directions agree on 0-0 and 2-2. 1-1 is a neighbour of both, in one direction only. 3-2 is next to 2-2, and
  // target 2 is done, but source 3 is not. 5-4 lies apart; both sides are free. 5-0 is not added: both are done.
  EXPECT_EQ(grow_diag_final_and({0, 1, 2, -1, 5}, {0, -1, 2, 2, -1, 0}),
            (Pairs{{0, 0}, {1, 1}, {2, 2}, {3, 2}, {5, 4}}));
  EXPECT_EQ(grow_diag_final_and({-1, -1}, {-1}), Pairs());
  EXPECT_EQ(grow_diag_final_and({}, {}), Pairs());
  EXPECT_EQ(grow_diag_final_and({1, 0}, {1, 0}), (Pairs{{1, 0}, {0, 1}}));
}

/// Sentences of a language in which word w is 100 + w, and each pair of neighbours is exchanged with some probability;
/// word 0 is rendered by two words, 100 and 200.
struct Language {
  explicit Language(std::int64_t sentences) {
    Random random(7);
    for (std::int64_t i = 0; i < sentences; ++i) {
      std::vector<std::int32_t> source(4 + random.below(8)), order;
      for (std::int32_t& word : source) word = static_cast<std::int32_t>(random.below(40));
      for (std::int32_t at = 0; at < std::ssize(source); ++at) order.push_back(at);
      for (std::size_t at = 0; at + 1 < order.size(); at += 2) {
        if (random.below(3) == 0) std::swap(order[at], order[at + 1]);
      }
      std::vector<std::int32_t> target;
      Pairs links;
      for (const std::int32_t at : order) {
        const std::int32_t word = source[static_cast<std::size_t>(at)];
        for (const std::int32_t rendered : word == 0 ? std::vector{100, 200} : std::vector{100 + word}) {
          links.push_back({.source = at, .target = static_cast<std::int32_t>(target.size())});
          target.push_back(rendered);
        }
      }
      sources.push_back(std::move(source)), targets.push_back(std::move(target)), truth.push_back(std::move(links));
    }
  }
  Sentences sources, targets;
  std::vector<Pairs> truth;
};

/// 1 - F1 of the pairs that the aligner finds in all sentences.
double error_rate(const WordAligner& aligner, const Language& language) {
  std::size_t common = 0, total = 0;
  for (std::size_t i = 0; i < language.sources.size(); ++i) {
    const Pairs found = aligner.align(language.sources[i], language.targets[i]);
    common += static_cast<std::size_t>(std::count_if(found.begin(), found.end(), [&](const AlignedPair& pair) {
      return std::ranges::find(language.truth[i], pair) != language.truth[i].end();
    }));
    total += found.size() + language.truth[i].size();
  }
  return 1 - 2 * static_cast<double>(common) / static_cast<double>(total);
}

TEST(WordAligner, FindsTheWordsOfALanguage) {
  const Language language(400);
  const IdSequences source(language.sources), target(language.targets);
  EXPECT_LT(error_rate(WordAligner(source, target), language), 0.02);
  EXPECT_LT(error_rate(WordAligner(source, target, 100), language), 0.05) << "learnt from a quarter";
}

TEST(WordAligner, IsAPureFunctionAndKnowsNoUnknownWords) {
  const Language language(100);
  const IdSequences source(language.sources), target(language.targets);
  const WordAligner one(source, target), again(source, target);
  for (std::size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(one.align(language.sources[i], language.targets[i]),
              again.align(language.sources[i], language.targets[i]));
  }
  EXPECT_EQ(one.align({}, language.targets[0]), Pairs());
  const std::vector<std::int32_t> unknown = {777, 778};
  for (const AlignedPair& pair : one.align(unknown, unknown)) EXPECT_LT(std::max(pair.source, pair.target), 2);
}

TEST(WordAligner, RefusesSidesOfOtherSizes) {
  const IdSequences source(Sentences{{1}, {2}}), target(Sentences{{1}});
  EXPECT_THAT([&] { WordAligner(source, target); },
              testing::ThrowsMessage<Failure>("aligner: 2 sources, 1 targets; expected equal numbers"));
}

}  // namespace
}  // namespace babelring
