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
      "what… no one knows; 我们走。他来。";
  int lines = 0;
  const auto next_line = [&](std::string& line) {
    line = text;
    return lines++ < 3;
  };
  return Vocabulary::from_bytes(train_vocabulary({.size = 70, .normalization = "identity"}, next_line),
                                "test vocabulary");
}

class SplitSourceTest : public testing::Test {
 protected:
  /// Splits `text` and returns the texts of the parts. Checks that the parts cover the source and that none exceeds
  /// `max_pieces`.
  std::vector<std::string> split(const std::string& text, std::int64_t max_pieces, bool inside_sentence = false) {
    const std::vector<std::int32_t> ids = vocabulary_.encode(text);
    const SplitSource split = split_source(ids, vocabulary_, max_pieces);
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
