#include "nmt/metrics/tokenizer.h"

#include <gtest/gtest.h>

#include "base/failure.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/chrf.h"

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

/// Expected tokens are those of sacreBLEU 2.6.0's zh.
TEST(TokenizerTest, Chinese) {
  const auto tokens = [](std::string_view line) { return joined(Tokenizer::chinese, line); };
  EXPECT_EQ(tokens("我来自GPT-4实验室，3.5公里。"), "我 来 自 GPT-4 实 验 室 ， 3.5 公 里 。");
  EXPECT_EQ(tokens("“你好”——他说…"), "“ 你 好 ” — — 他 说 …");
  EXPECT_EQ(tokens("他花了1,234.5元. ok."), "他 花 了 1,234.5 元 . ok .");
  EXPECT_EQ(tokens("\u30005."), "5.");
  EXPECT_EQ(tokens(".5 公斤"), ".5 公 斤");
  EXPECT_EQ(tokens("𠀀好"), "𠀀 好");
  EXPECT_EQ(tokens("ｶﾅ Ａ１"), "ｶ ﾅ Ａ １");
  EXPECT_EQ(tokens(" 100% 对 "), "100 % 对");
}

TEST(TokenizerTest, IsChosenByTheScriptOfTheReferences) {
  using Lines = std::vector<std::string>;
  const auto chosen = [](const Lines& lines) { return name_of(resolved(Tokenizer::automatic, lines)); };
  EXPECT_EQ(chosen({"Ein Mann läuft.", "Zwei Hunde."}), "13a");
  EXPECT_EQ(chosen({"Он идёт домой.", "안녕하세요 여러분", "هذا كتاب"}), "13a");
  EXPECT_EQ(chosen({"我们走吧。", "他来自北京，在 IBM Research 工作。"}), "zh");
  EXPECT_EQ(chosen({"我々は学校へ行きます。", "スーパーでパンを買った。"}), "char");
  EXPECT_EQ(chosen({"ฉันชอบกินข้าว", "ສະບາຍດີ"}), "char");
  EXPECT_EQ(chosen({"ខ្ញុំទៅផ្សារ", "ကျွန်တော်သွားမယ်", "བཀྲ་ཤིས་བདེ་ལེགས།"}), "char");
  EXPECT_EQ(chosen({"The word for it is 猫.", "He wrote 日本 on the wall of the old house."}), "13a");
  EXPECT_EQ(chosen({}), "13a");
  EXPECT_EQ(chosen({"3.14", "..."}), "13a");
  EXPECT_EQ(resolved(Tokenizer::intl, Lines{"我们走吧。"}), Tokenizer::intl);
  EXPECT_THROW(tokenize(Tokenizer::automatic, "a"), Failure);
}

/// Expected tokens are those of sacreBLEU 2.6.0's ja-mecab.
TEST(TokenizerTest, JapaneseByMecab) {
  const Result<std::shared_ptr<const Segmenter>> mecab = open_mecab(Tokenizer::japanese);
  if (!mecab) {
    EXPECT_NE(mecab.error().find("apt install libmecab2 mecab-ipadic-utf8"), std::string::npos) << mecab.error();
    GTEST_SKIP() << mecab.error();
  }
  std::u32string words;
  for (const std::u32string& word : (*mecab)->split("\u3000我々は学校へ行きます。 3.5キロ ")) words += word + U'|';
  EXPECT_EQ(to_utf8(words), "我々|は|学校|へ|行き|ます|。|3|.|5|キロ|");
  const Bleu bleu({.tokenizer = Tokenizer::japanese});
  EXPECT_EQ(bleu.tokenizer_name().substr(0, 9), "ja-mecab-");
  EXPECT_EQ(bleu.count("学校へ行きます。", {"学校へ行きます。"}).correct[0], 5);
  EXPECT_THROW(tokenize(Tokenizer::japanese, "a"), Failure);
}

TEST(TokenizerTest, KoreanNamesItsSource) {
  const Result<std::shared_ptr<const Segmenter>> mecab = open_mecab(Tokenizer::korean);
  if (mecab) GTEST_SKIP() << "MeCab-ko is installed";
  EXPECT_NE(mecab.error().find("mecab-ko-dic"), std::string::npos) << mecab.error();
  EXPECT_THROW(Bleu({.tokenizer = Tokenizer::korean}), UsageFailure);
}

TEST(TokenizerTest, IsDoubtedIfBleuIsZeroAtHighAccuracy) {
  EXPECT_EQ(doubt_of_tokenizer(0.004, 0.93), "BLEU 0.00 with accuracy 93 %: wrong tokenizer?");
  EXPECT_EQ(doubt_of_tokenizer(0.01, 0.93), "");
  EXPECT_EQ(doubt_of_tokenizer(0, 0.3), "") << "a model that has learnt little";
}

TEST(TokenizerTest, ParsesNamesAndRefusesUnknownOnes) {
  for (const std::string_view name : {"auto", "13a", "none", "intl", "char", "zh", "ja-mecab", "ko-mecab"}) {
    EXPECT_EQ(name_of(parse_tokenizer(name).value()), name);
  }
  EXPECT_FALSE(parse_tokenizer("ja").ok());
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
