#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/failure.h"
#include "base/files.h"
#include "nmt/data/corpus.h"
#include "nmt/data/prepare.h"
#include "nmt/data/vocabulary.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::string numbered(std::string_view words, int first, int last) {
  std::string text;
  for (int i = first; i < last; ++i) text += std::string(words) + " " + std::to_string(i) + "\n";
  return text;
}

/// Two corpora: clean, of two files, and crawl, with a tag, of which pairs 0 to 9 are those of clean.
class NamedCorporaTest : public testing::Test {
 protected:
  NamedCorporaTest() {
    const auto files = [&](const char* name, int first, int last) {
      return TextFiles{folder_.write(std::string(name) + ".src", numbered("the quick brown fox", first, last)),
                       folder_.write(std::string(name) + ".tgt", numbered("der schnelle braune fuchs", first, last))};
    };
    options_.corpora = {{.name = "clean", .tag = {}, .files = {files("a", 0, 30), files("c", 30, 40)}},
                        {.name = "crawl", .tag = "<BT>", .files = {files("b", 0, 60)}}};
    options_.output = folder_ / "out";
    options_.vocabulary = {.size = 44};
  }
  TemporaryFolder folder_;
  PrepareOptions options_;
};

TEST_F(NamedCorporaTest, FollowOneAnotherAndTheFirstKeepsACommonPair) {
  const PrepareResult result = prepare(options_);
  const Manifest manifest = load_manifest(options_.output);
  const Corpus corpus = Corpus::open(manifest, "train", true);
  ASSERT_EQ(corpus.parts().size(), 2U);
  EXPECT_EQ(corpus.parts()[0].name, "clean");
  EXPECT_EQ(corpus.parts()[0].last, 40);
  EXPECT_EQ(corpus.parts()[1].name, "crawl");
  EXPECT_EQ(corpus.parts()[1].first, 40);
  EXPECT_EQ(corpus.parts()[1].last, 60);
  EXPECT_EQ(corpus.part_of(39), 0);
  EXPECT_EQ(corpus.part_of(40), 1);
  const Vocabulary vocabulary = Vocabulary::load(options_.output / "spm.model");
  EXPECT_EQ(vocabulary.decode(corpus.source(39)), "the quick brown fox 39");
  EXPECT_EQ(vocabulary.decode(corpus.source(40)), "<BT> the quick brown fox 40");
  EXPECT_EQ(vocabulary.decode(corpus.target(40)), "der schnelle braune fuchs 40");

  const ManifestSet& train = manifest.set("train");
  EXPECT_EQ(train.corpora[1].tag, "<BT>");
  EXPECT_EQ(train.corpora[0].source_tokens + train.corpora[1].source_tokens, corpus.source_tokens());
  EXPECT_EQ(train.corpora[0].target_tokens + train.corpora[1].target_tokens, corpus.target_tokens());
  EXPECT_THAT(to_text(manifest.options), HasSubstr(R"("symbols":["<BT>"])"));

  const std::string table = result.reports[0].table();
  EXPECT_THAT(table, HasSubstr("train: 100 pairs read, 60 kept\n"));
  EXPECT_THAT(table, HasSubstr("train, clean: 40 pairs read, 40 kept\n"));
  EXPECT_THAT(table, HasSubstr("train, crawl: 60 pairs read, 20 kept\n"));
  EXPECT_THAT(table, HasSubstr("duplicate pair in this corpus or one before it, which keeps the pair"));
  const json::object report = result.reports[0].to_json();
  EXPECT_EQ(report.at("findings").at("duplicate").at("count").to_number<int>(), 40);
  EXPECT_EQ(report.at("corpora").at(1).at("corpus").as_string(), "crawl");
  EXPECT_EQ(report.at("corpora").at(1).at("pairs_kept").to_number<int>(), 20);
}

TEST_F(NamedCorporaTest, AreCountedByCorpusAfterEncodingDropsPairs) {
  const std::string words = "quick brown fox quick brown fox quick brown fox quick brown fox quick brown fox";
  for (std::size_t i = 0; i < 2; ++i) {
    const int first = 100 * static_cast<int>(i);
    const std::string name = "long" + std::to_string(i);
    options_.corpora[i].files.push_back({folder_.write(name + ".src", numbered(words, first, first + 2)),
                                         folder_.write(name + ".tgt", numbered("fuchs " + words, first, first + 2))});
  }
  options_.max_pieces = 30;  // fewer than the words of a long line, and more than the characters of another
  const PrepareResult result = prepare(options_);
  const std::vector<ManifestCorpus>& corpora = result.manifest.set("train").corpora;
  const Corpus corpus = Corpus::open(options_.output, "train", true);
  EXPECT_EQ(corpora[0].sentences, 40);
  EXPECT_EQ(corpora[1].sentences, 20);
  for (std::size_t i = 0; i < 2; ++i) {
    std::int64_t target_tokens = 0;
    for (std::int64_t k = corpus.parts()[i].first; k < corpus.parts()[i].last; ++k)
      target_tokens += corpus.target_length(k);
    EXPECT_EQ(corpora[i].target_tokens, target_tokens);
  }
  EXPECT_EQ(result.reports[0][Finding::too_many_pieces].count, 4);
  EXPECT_THAT(result.reports[0].table(), HasSubstr("train, crawl: 62 pairs read, 20 kept\n"));
}

TEST_F(NamedCorporaTest, WithoutNamesTheIdsAreThoseOfOneCorpus) {
  for (NamedText& text : options_.corpora) text.tag.clear();
  options_.vocabulary.size = 43;
  const PrepareResult named = prepare(options_);
  for (const NamedText& text : options_.corpora) {
    options_.train.insert(options_.train.end(), text.files.begin(), text.files.end());
  }
  options_.corpora.clear();
  options_.output = folder_ / "plain";
  const PrepareResult plain = prepare(options_);
  EXPECT_EQ(named.manifest.set("train").digest(), plain.manifest.set("train").digest());
  EXPECT_TRUE(Corpus::open(options_.output, "train").parts().empty());
  const std::string manifest = read_file(options_.output / "manifest.json");
  EXPECT_THAT(manifest, Not(HasSubstr("corpora")));
  EXPECT_THAT(manifest, Not(HasSubstr("corpus")));
  EXPECT_THAT(read_file(options_.output / "report.json"), Not(HasSubstr("corpora")));
}

TEST_F(NamedCorporaTest, ACorpusWithoutPairsIsNamed) {
  options_.corpora[1].files = options_.corpora[0].files;
  EXPECT_THAT([&] { prepare(options_); },
              ThrowsMessage<Failure>(HasSubstr(
                  "prepare: train, crawl: none of 40 pairs is left after cleaning (duplicate 40): see --keep")));
}

TEST_F(NamedCorporaTest, RefusesAManifestWhoseCorporaAreNotTheSet) {
  prepare(options_);
  const std::string manifest = read_file(options_.output / "manifest.json");
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = manifest;
    const std::size_t at = text.find(from, text.find("\"corpora\""));
    EXPECT_NE(at, std::string::npos);
    write_file_atomically(options_.output / "manifest.json", text.replace(at, from.size(), to));
    try {
      load_manifest(options_.output);
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
    return std::string("loaded");
  };
  EXPECT_THAT(refusal("\"sentences\":40", "\"sentences\":41"),
              HasSubstr("the corpora of set 'train' have 61 sentences, expected those of the set, 60"));
  EXPECT_THAT(refusal("\"sentences\":40", "\"sentences\":0"), HasSubstr("expected up to 256 corpora that have"));
  EXPECT_THAT(refusal("\"name\":\"clean\"", "\"name\":7"), HasSubstr("'name': expected a string, found 7"));
  EXPECT_EQ(refusal("\"name\":\"clean\"", "\"name\":\"other\""), "loaded");
}

TEST(CorpusNames, AreWordsThatAMixCanName) {
  for (const char* name : {"clean", "WMT-16_a", "9"}) EXPECT_TRUE(is_corpus_name(name)) << name;
  for (const char* name : {"", "a b", "until", "-a", "a.b", "ä", "a:b"}) EXPECT_FALSE(is_corpus_name(name)) << name;
  EXPECT_TRUE(is_corpus_name(std::string(40, 'a')));
  EXPECT_FALSE(is_corpus_name(std::string(41, 'a')));
}

}  // namespace
}  // namespace babelring
