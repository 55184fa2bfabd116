#include "nmt/decode/split_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sentencepiece_trainer.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace babelring {
namespace {

/// A vocabulary with one subword per character of these tests, so every position is between subwords.
Vocabulary characters() {
  const std::string text =
      "The cat sleeps. The dog (old) barks! \"Really?\" Dr. Who said on 3. May, z.B. in Rome. it was 3.14 again… So "
      "what… no one knows; 我们走。他来。「」！？ Prof. J. Ü Он её видел. Tom saw him in 1995. No. 5 TV He III. - n";
  int lines = 0;
  const auto next_line = [&](std::string& line) {
    line = text;
    return lines++ < 3;
  };
  return Vocabulary::from_bytes(train_vocabulary({.size = 110, .normalization = "identity"}, next_line),
                                "test vocabulary");
}

class SplitSourceTest : public testing::Test {
 protected:
  /// Splits `text` and returns the texts of the parts. Checks that the parts cover the source and that none exceeds
  /// `max_pieces`.
  std::vector<std::string> split(const std::string& text, std::int64_t max_pieces, bool inside_sentence = false,
                                 const LineSize& whole = {}) {
    const std::vector<std::int32_t> ids = vocabulary_.encode(text);
    const SplitSource split = split_source(ids, vocabulary_, max_pieces, whole);
    std::vector<std::string> texts;
    std::vector<std::int32_t> together;
    for (const auto& part : split.parts) {
      EXPECT_LE(std::ssize(part), max_pieces);
      texts.push_back(vocabulary_.decode(part));
      together.insert(together.end(), part.begin(), part.end());
    }
    EXPECT_EQ(together, ids);
    EXPECT_EQ(split.inside_sentence, inside_sentence) << text;
    return texts;
  }
  /// Splits every line of several sentences.
  std::vector<std::string> sentences(const std::string& text) { return split(text, 256, false, {.sentences = 1}); }
  std::int64_t pieces(const std::string& text) const { return std::ssize(vocabulary_.encode(text)); }

  using Texts = std::vector<std::string>;
  Vocabulary vocabulary_ = characters();
};

TEST_F(SplitSourceTest, LeavesShortSourcesWhole) {
  EXPECT_EQ(split("The cat sleeps. The dog barks!", 100), Texts{"The cat sleeps. The dog barks!"});
  EXPECT_EQ(split("The cat. The dog", pieces("The cat. The dog")), Texts{"The cat. The dog"});
  EXPECT_EQ(split("", 1), Texts{});
}

TEST_F(SplitSourceTest, SplitsAtSentenceEnds) {
  EXPECT_EQ(split("The cat sleeps. The dog (old) barks! \"Really?\" So what… The end", 30),
            (Texts{"The cat sleeps.", "The dog (old) barks!", "\"Really?\"", "So what…", "The end"}));
  EXPECT_EQ(split("我们走。他来。我们来", 8), (Texts{"我们走。", "他来。", "我们来"}));
}

/// The texts of the parts with a vocabulary that SentencePiece trained with further options.
std::vector<std::string> split_with(const std::string& options, const std::string& text, std::int64_t max_pieces) {
  const auto folder = std::filesystem::temp_directory_path() / ("split-source-test-" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "text") << "The cat sleeps. The dog (old) barks!\nThe cat. The dog. The dog\n";
  const auto trained = sentencepiece::SentencePieceTrainer::Train(
      fmt::format("--input={0}/text --model_prefix={0}/spm --model_type=bpe --vocab_size={1} --minloglevel=2 "
                  "--normalization_rule_name=identity {2}",
                  folder.string(), options.find("byte") == std::string::npos ? 32 : 290, options));
  EXPECT_TRUE(trained.ok()) << trained.ToString();
  const Vocabulary vocabulary = Vocabulary::load(folder / "spm.model");
  std::filesystem::remove_all(folder);
  const std::vector<std::int32_t> ids = vocabulary.encode(text);
  std::vector<std::string> texts;
  for (const auto& part : split_source(ids, vocabulary, max_pieces).parts) texts.push_back(vocabulary.decode(part));
  for (std::string& part : texts) part.erase(part.find_last_not_of(' ') + 1);
  return texts;
}

TEST_F(SplitSourceTest, KnowsVocabulariesThatMarkWordEnds) {
  const Texts expected = {"The cat sleeps.", "The dog (old) barks!", "The dog"};
  const std::string text = "The cat sleeps. The dog (old) barks! The dog";
  EXPECT_EQ(split_with("--treat_whitespace_as_suffix=true", text, 20), expected);
  EXPECT_EQ(split_with("--treat_whitespace_as_suffix=true --add_dummy_prefix=false", text, 20), expected);
  EXPECT_EQ(split_with("--add_dummy_prefix=false", text, 20), expected);
}

TEST_F(SplitSourceTest, KnowsFullStopsThatAreBytes) {
  EXPECT_EQ(split_with("--byte_fallback=true", "我们走。他来。我们来", 20), (Texts{"我们走。", "他来。", "我们来"}));
}

TEST_F(SplitSourceTest, ALineOfEightShortSentencesHasEightParts) {
  const Texts eight = {"Tom saw him.",  "Who said it?", "He was in Rome in 1995.",
                       "No one knows!", "So it was.",   "The dog.",
                       "He saw Tom.",   "Really."};
  const std::string line = join_parts(eight);
  EXPECT_EQ(sentences(line), eight);
  EXPECT_EQ(split(line, 256, false, {.pieces = pieces(line) - 1}), eight);
  EXPECT_EQ(split(line, 256, false, {.sentences = 7}), eight);
  EXPECT_EQ(split(line, 256, false, {.pieces = pieces(line), .sentences = 8}), Texts{line});
  EXPECT_EQ(split(eight[0], 256, false, {.pieces = 1, .sentences = 1}), Texts{eight[0]});
}

TEST_F(SplitSourceTest, KeepsASentenceWithQuotesOrParenthesesWhole) {
  const Texts quoted = {"\"He saw it. So what?\" said Tom.", "The dog (old. Really old.) barks."};
  EXPECT_EQ(sentences(join_parts(quoted)), quoted);
  EXPECT_EQ(split(quoted[0], 256, false, {.pieces = 5, .sentences = 1}),
            (Texts{"\"He saw it.", "So what?\" said Tom."}))
      << "unless it is too long";
  EXPECT_EQ(sentences("He saw it. (No one knows. So what?"), (Texts{"He saw it.", "(No one knows.", "So what?"}))
      << "what never closes keeps nothing together";
}

TEST_F(SplitSourceTest, SplitsATextInSmallLettersWhereItIsTooLong) {
  const std::string line = "the cat sleeps. the dog barks! no one knows it. it was z.b. in rome.";
  EXPECT_EQ(sentences(line), Texts{line});
  EXPECT_EQ(split(line, 256, false, {.pieces = 20, .sentences = 1}),
            (Texts{"the cat sleeps.", "the dog barks!", "no one knows it.", "it was z.b. in rome."}));
}

TEST_F(SplitSourceTest, KnowsOtherScripts) {
  EXPECT_EQ(sentences("他来！？我们走。「他来。我们走。」他来"),
            (Texts{"他来！？", "我们走。", "「他来。我们走。」", "他来"}));
  EXPECT_EQ(sentences("Он видел. Он видел её. её видел"), (Texts{"Он видел.", "Он видел её. её видел"}));
}

TEST_F(SplitSourceTest, DoubtsAbbreviationsWithVowelsAndNumbersThatFollow) {
  EXPECT_EQ(sentences("Tom saw it on TV. So what?"), (Texts{"Tom saw it on TV.", "So what?"}));
  for (const char* whole : {"Prof. Who sleeps.", "No. 5 barks.", "J. Who sleeps.", "Tom saw it. видел",
                            "So was III. Who.", "Who! - no one sleeps."}) {
    EXPECT_EQ(sentences(whole), Texts{whole});
  }
}

TEST_F(SplitSourceTest, MeasuresTheUsualLineOfATrainingSet) {
  std::vector<std::vector<std::int32_t>> sources, targets;
  const auto add = [&](const std::string& line, int times) {
    for (int i = 0; i < times; ++i) sources.push_back(vocabulary_.encode(line));
    targets.resize(sources.size(), {5});
  };
  const std::string one = "The cat sleeps.", two = one + " " + one, many = two + " " + two;
  add(one, 189);
  add(two, 10);
  add(many, 1);
  const LineSize usual = usual_line_size(Corpus::from_memory(sources, targets), vocabulary_, 1000);
  EXPECT_EQ(usual.pieces, pieces(two));
  EXPECT_EQ(usual.sentences, 2);
  const LineSize shorter = usual_line_size(Corpus::from_memory(sources, targets), vocabulary_, pieces(one) + 1);
  EXPECT_EQ(shorter.pieces, pieces(one)) << "longer lines are not trained on";
  EXPECT_EQ(shorter.sentences, 1);
}

TEST_F(SplitSourceTest, AvoidsSplittingAfterAbbreviationsAndNumbers) {
  const std::string sentence = "Dr. Who said on 3. May, z.B. in Rome, it was 3.14 again.";
  EXPECT_EQ(split("The cat sleeps. " + sentence + " The dog barks.", pieces(sentence)),
            (Texts{"The cat sleeps.", sentence, "The dog barks."}));
  EXPECT_EQ(split("no one said Dr. Who barks again", pieces("no one said Dr. Who barks")),
            (Texts{"no one said Dr.", "Who barks again"}))
      << "a doubtful sentence end is better than none";
}

TEST_F(SplitSourceTest, CutsBetweenWordsOrAnywhereAndReportsIt) {
  EXPECT_EQ(split("no one knows what it was", pieces("no one knows w"), true), (Texts{"no one knows", "what it was"}));
  const Texts parts = split("catcatcatcat", 3, true);
  EXPECT_GE(parts.size(), 4U - 1U);
}

TEST(JoinParts, AddsSpacesExceptAfterIdeographs) {
  EXPECT_EQ(join_parts({"Die Katze schläft.", "Der Hund bellt."}), "Die Katze schläft. Der Hund bellt.");
  EXPECT_EQ(join_parts({"我们走。", "他来。"}), "我们走。他来。");
  EXPECT_EQ(join_parts({"", "a", "", "b"}), "a b");
  EXPECT_EQ(join_parts({}), "");
}

}  // namespace
}  // namespace babelring
