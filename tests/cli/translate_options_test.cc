#include "cli/translate_options.h"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <boost/json/array.hpp>

#include "base/failure.h"

namespace babelring {
namespace {

/// The reason for which a request's member is refused; empty: it is not.
std::string refusal(std::string_view name, const json::value& value) {
  TranslateChoices choices;
  try {
    return read_member(name, value, search_options(choices)) ? "" : "unknown";
  } catch (const UsageFailure& failure) {
    return failure.what();
  }
}

TEST(TranslateOptions, EachOptionSetsTheSameByACommandAndByARequest) {
  TranslateChoices by_command, by_request;
  CLI::App command;
  declare(command, search_options(by_command));
  declare(command, answer_options(by_command));
  command.parse("--beam 3 --length-penalty 0.5 --length-formula gnmt --min-length 2 --no-repeat-ngram 4 --nbest 2");
  const auto read = [&](std::string_view name, const json::value& value) {
    EXPECT_TRUE(read_member(name, value, search_options(by_request)) ||
                read_member(name, value, answer_options(by_request)))
        << name;
  };
  read("beam", 3);
  read("length_penalty", 0.5);
  read("length_formula", "gnmt");
  read("min_length", 2);
  read("no_repeat_ngram", 4);
  read("nbest", 2);
  for (const TranslateChoices* choices : {&by_command, &by_request}) {
    const BeamOptions& beam = choices->translate.beam;
    EXPECT_EQ(beam.beam, 3);
    EXPECT_EQ(beam.n_best, 2);
    EXPECT_EQ(beam.length_penalty, 0.5);
    EXPECT_EQ(beam.length_formula, LengthFormula::gnmt);
    EXPECT_EQ(beam.rules.min_length, 2);
    EXPECT_EQ(beam.rules.no_repeat_ngram, 4);
  }
}

TEST(TranslateOptions, ARequestIsRefusedByTheNameOfItsMember) {
  EXPECT_EQ(refusal("beam", 101), "beam: found 101, expected an integer from 1 to 100");
  EXPECT_EQ(refusal("beam", 1.5), "beam: found 1.5, expected an integer from 1 to 100");
  EXPECT_EQ(refusal("length_penalty", "1"), "length_penalty: found \"1\", expected a number from 0 to 10");
  EXPECT_EQ(refusal("length_formula", "other"), "length_formula: found \"other\", expected power|gnmt|pieces");
  EXPECT_EQ(refusal("suppress", json::array{"a", 1}),
            "suppress: found [\"a\",1], expected an array of at most 1000 strings");
  EXPECT_EQ(refusal("beam", nullptr), "") << "null keeps the default";
  EXPECT_EQ(refusal("batch_tokens", 1), "unknown") << "a command's only";
  EXPECT_EQ(refusal("length-penalty", 1), "unknown");
  EXPECT_EQ(refusal("", 1), "unknown");
}

/// A vocabulary of pieces "▁" and letters.
Vocabulary small_vocabulary() {
  std::vector<std::string> lines = {"der hund und der bund", "das kind und der wind", "hund und kind, wind und bund."};
  std::size_t next = 0;
  return Vocabulary::from_bytes(train_vocabulary({.size = 40},
                                                 [&](std::string& line) {
                                                   if (next == lines.size()) return false;
                                                   line = lines[next++];
                                                   return true;
                                                 }),
                                "small");
}

TEST(TranslateOptions, SuppressesPiecesAndWords) {
  const Vocabulary vocabulary = small_vocabulary();
  const auto pieces_of = [&](const TokenRules& rules) {
    std::vector<std::string> pieces;
    for (const std::int32_t id : rules.suppressed) pieces.push_back(vocabulary.piece(id));
    for (const auto& sequence : rules.suppressed_sequences) pieces.push_back(vocabulary.decode(sequence));
    return pieces;
  };
  TokenRules rules;
  suppress(std::vector<std::string>{"und", "▁und", "piece:und", "hundd"}, vocabulary, rules);
  EXPECT_THAT(pieces_of(rules), testing::ElementsAre("▁und", "▁und", "und", "hundd"));
  for (const std::string text : {"▁xyz", "piece:</s>", "piece:<unk>", "piece:", "日"}) {
    TokenRules none;
    EXPECT_THROW(suppress({&text, 1}, vocabulary, none), UsageFailure) << text;
  }
}

}  // namespace
}  // namespace babelring
