#include "nmt/metrics/chrf.h"

#include <gtest/gtest.h>

namespace babelring {
namespace {

TEST(Chrf, ScoresPairsLikeSentences) {
  const std::vector<std::string> texts = {
      "Das ist ein Haus .", "Das ist das Haus, das Haus!",       "",           "a",
      "aaaaaaaaaaaa",       "Ein ganz anderer Satz über Bäume.", "日本語の文", "   ",
      "Das ist ein Haus ."};
  for (const ChrfOptions& options : {ChrfOptions{}, ChrfOptions{.char_order = 3, .beta = 1, .lowercase = true},
                                     ChrfOptions{.eps_smoothing = true}}) {
    const Chrf chrf(options);
    const std::vector<double> scores = chrf.score_pairs(texts);
    ASSERT_EQ(scores.size(), texts.size() * texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      for (std::size_t j = 0; j < texts.size(); ++j) {
        EXPECT_EQ(scores[i * texts.size() + j], chrf.score(chrf.count(texts[i], {texts[j]}))) << i << ' ' << j;
      }
    }
  }
  EXPECT_TRUE(Chrf().score_pairs({}).empty());
}

}  // namespace
}  // namespace babelring
