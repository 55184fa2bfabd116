#include "nmt/metrics/tokenizer.h"

#include <gtest/gtest.h>

#include "base/failure.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"
#include "nmt/metrics/unicode.h"

namespace babelring {
namespace {

std::string joined(Tokenizer tokenizer, std::string_view line) {
  std::u32string text;
  for (const std::u32string& token : tokenize(tokenizer, line)) text += (text.empty() ? U"" : U" ") + token;
  return to_utf8(text);
}

TEST(TokenizerTest, ThirteenA) {
  const auto tokens = [](std::string_view line) { return joined(Tokenizer::thirteen_a, line); };
  EXPECT_EQ(tokens("Hello, world!"), "Hello , world !");
  EXPECT_EQ(tokens("It costs 1,234.56 $."), "It costs 1,234.56 $ .");
  EXPECT_EQ(tokens("a 3-year-old"), "a 3 - year-old");
  EXPECT_EQ(tokens("&quot;x&quot; &amp; &lt;y&gt;"), "\" x \" & < y >");
  EXPECT_EQ(tokens("wait..."), "wait . . .");
  EXPECT_EQ(tokens("„Ärger“ don't"), "„Ärger“ don't");
  EXPECT_EQ(tokens("<skipped>"), "");
  EXPECT_EQ(tokens(".5 5."), ". 5 5 .");
}

TEST(TokenizerTest, International) {
  const auto tokens = [](std::string_view line) { return joined(Tokenizer::intl, line); };
  EXPECT_EQ(tokens("„Ärger“ – 5€"), "„ Ärger “ – 5 €");
  EXPECT_EQ(tokens("1,234.5 km."), "1,234.5 km .");
  EXPECT_EQ(tokens("in 1995."), "in 1995.");  // no rule splits a mark between a number and the end
  EXPECT_EQ(tokens("in 1995. \t"), "in 1995.");
}

TEST(TokenizerTest, NoneSplitsAtUnicodeSpaceAndCharAtEverything) {
  EXPECT_EQ(joined(Tokenizer::none, " a\u00a0b,\u3000c\t"), "a b, c");
  EXPECT_EQ(joined(Tokenizer::character, "äb c"), "ä b c");
}

TEST(TokenizerTest, ParsesNamesAndRefusesUnknownOnes) {
  for (const std::string_view name : {"13a", "none", "intl", "char"}) {
    EXPECT_EQ(name_of(parse_tokenizer(name).value()), name);
  }
  EXPECT_FALSE(parse_tokenizer("zh").ok());
  EXPECT_FALSE(parse_smoothing("method3").ok());
}

TEST(UnicodeTest, LowercasesLikePython) {
  EXPECT_EQ(to_lower("ÄÖÜẞ ΣΑΣ İ"), "äöüß σας i\u0307");
  EXPECT_EQ(to_utf8(to_utf32("a\xff𝄞")), "a\ufffd𝄞");
}

TEST(BleuTest, ClipsByMaxCountAndNearestLengthOfReferences) {
  const Bleu bleu(BleuOptions{.tokenizer = Tokenizer::none});
  const BleuCounts counts = bleu.count("a a a b", {"a a c", "a b b b b b"});
  EXPECT_EQ(counts.correct[0], 3);  // "a" twice in the first, "b" once in the second
  EXPECT_EQ(counts.correct[1], 2);  // "a a" and "a b"
  EXPECT_EQ(counts.reference_length, 3);
  EXPECT_EQ(bleu.signature(2).substr(0, 8), "nrefs:2|");
}

TEST(BleuTest, CountsOfPartsSumToTheCorpus) {
  const Bleu bleu;
  const std::vector<std::string> hypotheses = {"the cat sat on the mat", "a dog barked loudly today"};
  const std::vector<std::string> references = {"the cat sat on a mat", "the dog barked loudly today"};
  BleuCounts counts = bleu.count(hypotheses[0], {references[0]});
  counts += bleu.count(hypotheses[1], {references[1]});
  EXPECT_EQ(bleu.score(counts).score, bleu.corpus(hypotheses, {references}).score);
  EXPECT_GT(bleu.score(counts).score, 40);
}

TEST(BleuTest, UnequalCountsAreRefused) {
  EXPECT_THROW(Bleu().corpus({"a"}, {{"a", "b"}}), Failure);
  EXPECT_THROW(Bleu().corpus({"a"}, {}), Failure);
  EXPECT_THROW(Chrf().corpus({"a"}, {{}}), Failure);
}

TEST(ChrfTest, TakesTheBestReference) {
  const Chrf chrf;
  EXPECT_DOUBLE_EQ(chrf.score(chrf.count("a house", {"nothing", "a house"})), 100);
  EXPECT_EQ(chrf.score(chrf.count("", {""})), 0);
}

}  // namespace
}  // namespace babelring
