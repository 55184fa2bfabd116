#include "nmt/data/pair_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "base/failure.h"
#include "base/files.h"
#include "nmt/data/prepare.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PairFilter, FindsNumbersHoweverTheyAreWritten) {
  EXPECT_THAT(numbers_of("In 1999, 53,000 of 1.200.000 people"), ElementsAre("1200000", "1999", "53000"));
  EXPECT_EQ(numbers_of("53 000 or 53'000 or 53.000"), numbers_of("53,000; 53000 / 053000"));
  EXPECT_THAT(numbers_of("3.14 and 12:05, 2009 300"), ElementsAre("12", "14", "2009", "3", "300", "5"));
  EXPECT_THAT(numbers_of("1234.567 0 00 7x8"), ElementsAre("0", "0", "1234", "567", "7", "8"));
  EXPECT_THAT(numbers_of("1, 234 and 5.  678"), ElementsAre("1", "234", "5", "678"));
  EXPECT_THAT(numbers_of("٢٠٢٤ и ४२"), ElementsAre("2024", "42"));
  EXPECT_THAT(numbers_of("none"), ElementsAre());
}

TEST(PairFilter, FindsHostsAndMailAddresses) {
  EXPECT_THAT(addresses_of("See https://www.Example.com/a?b=c, www.example.com. and (http://x.org:80)!"),
              ElementsAre("example.com", "x.org"));
  EXPECT_THAT(addresses_of("Write to Max.Muster@Web.de."), ElementsAre("max.muster@web.de"));
  EXPECT_THAT(addresses_of("meet @ noon, a@b, ://, www.. and e.g. this"), ElementsAre());
}

TEST(PairFilter, MeasuresSymbolsRunsAndScripts) {
  EXPECT_DOUBLE_EQ(symbol_fraction("ab 12"), 0.5);
  EXPECT_DOUBLE_EQ(symbol_fraction("हिन्दी"), 0);  // marks of vowels belong to letters
  EXPECT_DOUBLE_EQ(symbol_fraction(". 。"), 1);
  EXPECT_DOUBLE_EQ(symbol_fraction(" "), 0);
  EXPECT_EQ(longest_run("abbb  cc    ä"), 3);
  EXPECT_EQ(longest_run("ää€€€€"), 4);
  EXPECT_EQ(longest_run(""), 0);
  EXPECT_DOUBLE_EQ(script_fraction("Привет you 42!", "Cyrl"), 6.0 / 9);
  EXPECT_DOUBLE_EQ(script_fraction("本を買いました", "Jpan"), 1);
  EXPECT_DOUBLE_EQ(script_fraction("본 本", "kore"), 1);
  EXPECT_DOUBLE_EQ(script_fraction("42!", "Latin"), 1) << "nothing to judge by";
  EXPECT_TRUE(is_script_name("Hant"));
  EXPECT_FALSE(is_script_name("Latinn"));
  EXPECT_FALSE(is_script_name("Common"));
}

TEST(PairFilter, SkeletonsIgnoreCaseMarksAndDigits) {
  EXPECT_EQ(skeleton("Go away!"), skeleton("GO, away…"));
  EXPECT_EQ(skeleton("Question 5 (A-12)"), skeleton("question 77 A1"));
  EXPECT_NE(skeleton("page"), skeleton("page 1"));
  EXPECT_NE(skeleton("a1b"), skeleton("ab1"));
  EXPECT_EQ(skeleton("ÄÖ"), skeleton("äö"));
}

/// The finding for a pair, by name; "kept".
std::string judged(const FilterOptions& options, std::string_view source, std::string_view target) {
  PairFilter filter(options);
  const auto finding = filter.judge(source, target);
  return finding ? std::string(name_of(*finding)) : "kept";
}

TEST(PairFilter, EachFilterDropsOnlyWhenItIsOn) {
  struct Case {
    std::string finding;
    FilterOptions options;
    std::string source, target, sound_source, sound_target;
  };
  const Case cases[] = {
      {"symbols", {.max_symbols = 0.6}, "-- 12.5 % --", "ein Satz", "It cost $5.", "Es kostete 5 $."},
      {"repeated", {.max_repeated = 4}, "noooooo", "nein", "noooo", "nein"},
      {"numbers", {.min_numbers = 0.5}, "in 1999 and 2001", "im Jahr 1998", "in 1999, at 3", "1999 um 15"},
      {"addresses", {.same_addresses = true}, "see www.a.com", "siehe www.b.de", "at a.com", "bei http"},
      {"near_identical", {.drop_near_identical = true}, "Justin, Megastar", "justin megastar.", "a star", "ein Star"},
      {"other_script", {.min_script = 0.5, .scripts = {"Latn", "Cyrl"}}, "the cat", "die Katze", "the cat", "кошка"},
      {"other_language",
       {.identify = true, .source_language = "en", .target_language = "de"},
       "This is a sentence in English.",
       "Ceci est une phrase en français.",
       "This is a sentence in English.",
       "Dies ist ein Satz auf Deutsch."},
  };
  for (const Case& one : cases) {
    EXPECT_EQ(judged(one.options, one.source, one.target), one.finding);
    EXPECT_EQ(judged(one.options, one.sound_source, one.sound_target), "kept") << one.finding;
    EXPECT_EQ(judged({}, one.source, one.target), "kept") << one.finding;
  }
  EXPECT_EQ(judged({.min_numbers = 1}, "three of 4", "drei von vier"), "kept") << "numbers are written in words, too";
  EXPECT_EQ(judged({.keep_identical = true, .drop_near_identical = true}, "Bonn", "Bonn"), "kept");
}

TEST(PairFilter, DropsNearDuplicatesAfterTheFirst) {
  for (const bool drop : {false, true}) {
    PairFilter filter({.drop_near_duplicates = drop});
    EXPECT_FALSE(filter.judge("Go away!", "Geh weg!"));
    EXPECT_EQ(filter.judge("Go away!", "Geh weg!"), Finding::duplicate);
    EXPECT_EQ(filter.judge("go away", "Geh weg.").has_value(), drop);
    EXPECT_FALSE(filter.judge("Go away!", "Verschwinde!"));
  }
}

TEST(PairFilter, LanguagesAreKnownByTheirCodes) {
  for (const char* code : {"en", "de", "de-AT", "zh", "zh-Hant", "pt_BR", "nb", "he", "sr"}) {
    EXPECT_TRUE(is_identifiable(code)) << code;
  }
  EXPECT_FALSE(is_identifiable("xx"));
  EXPECT_THROW(PairFilter({.identify = true, .source_language = "xx", .target_language = "de"}), Failure);
  EXPECT_THROW(PairFilter({.min_script = 0.5, .scripts = {"Latn", "Nope"}}), Failure);
  const FilterOptions norwegian{.identify = true, .source_language = "nb", .target_language = "he"};
  EXPECT_EQ(
      judged(norwegian, "Dette er en setning på norsk, og den er ganske lang.", "זה משפט בעברית, והוא ארוך למדי."),
      "kept");
}

class CleaningTest : public testing::Test {
 protected:
  PrepareOptions options(std::string_view source, std::string_view target) {
    PrepareOptions result;
    result.train = {{folder_.write("a.src", source), folder_.write("a.tgt", target)}};
    return result;
  }
  TemporaryFolder folder_;
};

TEST_F(CleaningTest, ScriptsAreThoseThatTheTextBeginsWith) {
  std::string source, target;
  for (int i = 0; i < 1500; ++i) {
    const bool other = i == 3 || i == 1400;
    source += fmt::format("the cat {}\n", i);
    target += fmt::format("{} {}\n", other ? "the english cat" : "本を買いました", i);
  }
  PrepareOptions config = options(source, target);
  config.filter.min_script = 0.5;
  const PrepareReport report = try_cleaning(config).at(0);
  EXPECT_EQ(report[Finding::other_script].count, 2);
  EXPECT_THAT(report[Finding::other_script].examples,
              ElementsAre(HasSubstr("a.src:4: the cat 3 ||| the english cat 3"), HasSubstr("a.src:1401: the cat")));
  EXPECT_EQ(report.kept(), 1498);
  PrepareOptions few = options("a cat\nсобака\n", "Katze\nHund\n");  // fewer than it would learn from
  few.filter.min_script = 0.5;
  EXPECT_EQ(try_cleaning(few).at(0)[Finding::other_script].count, 1);
}

TEST_F(CleaningTest, ADryRunWritesNothingAndCountsWhatTheFirstPassDrops) {
  PrepareOptions config = options("the fox\nsame\nthe cat\nthe fox\n", "der fuchs\nsame\ndie katze\nder fuchs\n");
  config.valid = TextFiles{folder_.write("v.src", "the cat\n"), folder_.write("v.tgt", "x\n")};
  const auto before = std::distance(std::filesystem::directory_iterator(folder_.path()), {});
  const std::vector<PrepareReport> reports = try_cleaning(config);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), before);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].summary(), "identical 1, duplicate 1, held_out 1");
  EXPECT_EQ(reports[0].kept(), 1);
  EXPECT_EQ(reports[1].table(), "valid: 1 pairs read, 1 kept\n");
}

}  // namespace
}  // namespace babelring
