#include "nmt/data/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

#include "base/digest.h"
#include "base/failure.h"
#include "base/files.h"
#include "base/work_folder.h"
#include "nmt/data/corpus.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using namespace std::string_view_literals;
using testing::HasSubstr;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

std::string numbered(std::string_view words, int lines) {
  std::string text;
  for (int i = 0; i < lines; ++i) text += std::string(words) + " " + std::to_string(i) + "\n";
  return text;
}

class PrepareTest : public testing::Test {
 protected:
  PrepareOptions options(std::string_view source, std::string_view target) {
    PrepareOptions result;
    result.train = {{folder_.write("train.src", source), folder_.write("train.tgt", target)}};
    result.output = folder_ / "out";
    result.vocabulary = {.size = 40};
    return result;
  }
  PrepareOptions clean_options(int lines = 60) {
    return options(numbered("the quick brown fox", lines), numbered("der schnelle braune fuchs", lines));
  }
  void add_valid(PrepareOptions& options, std::string_view source, std::string_view target) {
    options.valid = TextFiles{folder_.write("valid.src", source), folder_.write("valid.tgt", target)};
  }
  TemporaryFolder folder_;
};

TEST_F(PrepareTest, OutputIsReadByCorpusVocabularyAndText) {
  PrepareOptions config = clean_options();
  add_valid(config, "a  quick fox \nthe fox 7\r\n", "ein schneller fuchs\nfuchs 7\n");
  const PrepareResult result = prepare(config);
  const Corpus train = Corpus::open(config.output, "train", true);
  const Corpus valid = Corpus::open(config.output, "valid", true);
  const ParallelText text = ParallelText::open(config.output, "valid");
  const Vocabulary vocabulary = Vocabulary::load(config.output / "spm.model");
  EXPECT_EQ(train.sentences(), 60);
  EXPECT_EQ(vocabulary.decode(train.source(17)), "the quick brown fox 17");
  EXPECT_EQ(vocabulary.decode(train.target(59)), "der schnelle braune fuchs 59");
  EXPECT_EQ(text.source, (std::vector<std::string>{"a  quick fox ", "the fox 7"}));  // raw except for the CR
  EXPECT_EQ(text.target, (std::vector<std::string>{"ein schneller fuchs", "fuchs 7"}));
  EXPECT_EQ(valid.source(1).size(), vocabulary.encode("the fox 7").size());
  EXPECT_EQ(result.manifest.set("train").source_tokens, train.source_tokens());
  EXPECT_EQ(load_manifest(config.output).vocabulary.sha256, vocabulary.digest());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(config.output), {}), 9) << "nothing else is left";
  EXPECT_THROW(ParallelText::open(config.output, "train"), Failure);
  EXPECT_THAT(message_of([&] { Corpus::open(config.output, "test"); }),
              HasSubstr("out: no set 'test', only train, valid"));
}

TEST_F(PrepareTest, AlignsTheTrainingPairs) {
  PrepareOptions config = clean_options();
  add_valid(config, "a quick fox\n", "ein schneller fuchs\n");
  prepare(config);
  const std::string without = Corpus::open(config.output, "train").digest();
  const Manifest unaligned = load_manifest(config.output);
  EXPECT_THAT(message_of([&] { Corpus::open(unaligned, "train").open_links(unaligned, "train"); }),
              HasSubstr("set 'train' has no alignments; expected a folder of `nmt prepare --align`"));
  config.align = true;
  const Manifest manifest = prepare(config).manifest;
  EXPECT_EQ(load_manifest(config.output).set("train").links->sha256, manifest.set("train").links->sha256);
  EXPECT_FALSE(manifest.set("valid").links);
  EXPECT_EQ(manifest.files_of("train").size(), 3U) << "also hashed and copied";
  Corpus train = Corpus::open(load_manifest(config.output), "train");
  EXPECT_EQ(train.digest(), without);
  EXPECT_FALSE(train.has_links());
  train.open_links(load_manifest(config.output), "train", true);
  EXPECT_NE(train.digest(), without);
  for (std::int64_t i = 0; i < train.sentences(); ++i) {  // the number at the end is one piece or more on both sides
    const auto links = train.links(i);
    ASSERT_GE(links.size(), 2U);
    EXPECT_EQ(links[links.size() - 2], train.source_length(i) - 1) << i;
    EXPECT_EQ(links[links.size() - 1], train.target_length(i) - 1) << i;
  }
  std::ofstream(config.output / "train.links", std::ios::app) << "more";
  EXPECT_THAT(message_of([&] { train.open_links(load_manifest(config.output), "train"); }), HasSubstr("train.links"));
}

TEST_F(PrepareTest, OutputDoesNotDependOnThreads) {
  PrepareOptions config = clean_options(500);
  config.align = true;
  const auto digest = [&](int threads) {
    config.threads = threads;
    prepare(config);
    return sha256_file(config.output / "manifest.json");
  };
  const std::string once = digest(1);
  EXPECT_EQ(digest(1), once);
  EXPECT_EQ(digest(5), once);
}

TEST_F(PrepareTest, ReportsEveryProblemByFileAndLine) {
  const std::string long_line(LineReader::longest_bytes + 10, 'x');
  const std::string source = numbered("the quick brown fox", 50) +          // 1 to 50
                             "bad \xff byte\n" + std::string("a\0b\n"sv) +  // 51, 52
                             "windows line\r\n" + long_line + "\n" +        // 53 kept, 54
                             "\n" + "fine\n" +                              // 55, 56 (target empty)
                             "same same\n" + "the quick brown fox 3\n" +    // 57, 58
                             "one\n";                                       // 59
  const std::string target = numbered("der schnelle braune fuchs", 50) + "x y\nx y\nfenster zeile\nx\nx\n \t\n" +
                             "same same\nder schnelle  braune fuchs 3\n" + "a b c d e f g\n";
  const PrepareOptions config = options(source, target);
  const PrepareReport report = prepare(config).reports.at(0);
  EXPECT_EQ(report.read(), 59);
  EXPECT_EQ(report.kept(), 51);
  const auto expect_one = [&](Finding finding, const std::string& place) {
    EXPECT_EQ(report[finding].count, 1) << name_of(finding);
    ASSERT_EQ(report[finding].examples.size(), 1U) << name_of(finding);
    EXPECT_THAT(report[finding].examples[0], HasSubstr(place));
  };
  expect_one(Finding::invalid_utf8, "train.src:51: bad \\xff byte");
  expect_one(Finding::control_byte, "train.src:52: a\\x00b");
  expect_one(Finding::crlf, "train.src:53: windows line");
  expect_one(Finding::over_long_line, "train.src:54: xxxx");
  EXPECT_EQ(report[Finding::empty].count, 2);
  EXPECT_THAT(report[Finding::empty].examples[0], HasSubstr("train.src:55:"));
  EXPECT_THAT(report[Finding::empty].examples[1], HasSubstr("train.tgt:56:"));
  expect_one(Finding::identical, "train.src:57:");
  expect_one(Finding::duplicate, "train.src:58:");
  expect_one(Finding::ratio, "train.src:59:");
  EXPECT_THAT(report.table(), HasSubstr("59 pairs read, 51 kept"));
  const json::value stored = parse_json(read_file(config.output / "report.json")).value();
  EXPECT_EQ(stored.at("sets").at(0).at("findings").at("empty").at("count").as_int64(), 2);
}

TEST_F(PrepareTest, UnequalFilesAreRefusedOrTruncated) {
  PrepareOptions config = options(numbered("the quick brown fox", 50), numbered("der schnelle braune fuchs", 47));
  const std::string message = message_of([&] { prepare(config); });
  EXPECT_THAT(message, HasSubstr("train.src has 50 lines"));
  EXPECT_THAT(message, HasSubstr("train.tgt has 47"));
  EXPECT_FALSE(std::filesystem::exists(config.output / "manifest.json"));
  config.unequal = Unequal::truncate;
  const PrepareReport report = prepare(config).reports.at(0);
  EXPECT_EQ(report.kept(), 47);
  EXPECT_EQ(report[Finding::unpaired].count, 3);
  EXPECT_THAT(report[Finding::unpaired].examples.at(0), HasSubstr("train.src:48:"));
}

TEST_F(PrepareTest, RefusesMarkup) {
  PrepareOptions config = clean_options();
  add_valid(config, "a fox\nfox\n", "<html>\n<p>ein fuchs</p>\n");
  EXPECT_THAT(message_of([&] { prepare(config); }), HasSubstr("valid.tgt:1: begins with '<html'"));
}

TEST_F(PrepareTest, RefusesSetsWithoutPairsAndKeepsAnOlderFolder) {
  PrepareOptions config = clean_options();
  add_valid(config, "", "");
  EXPECT_EQ(message_of([&] { prepare(config); }),
            "prepare: " + (folder_ / "valid.src").string() + " has no lines; expected pairs for valid");
  add_valid(config, "\na b\n", "x\n \n");
  EXPECT_EQ(message_of([&] { prepare(config); }), "prepare: valid: none of 2 pairs is left after cleaning (empty 2)");
  EXPECT_FALSE(std::filesystem::exists(config.output));

  add_valid(config, "a quick fox\n", "ein schneller fuchs\n");
  prepare(config);
  std::map<std::string, std::string> before;
  for (const auto& entry : std::filesystem::directory_iterator(config.output)) {
    before[entry.path().filename().string()] = read_file(entry.path());
  }
  config.max_pieces = 1;
  config.vocabulary.size = 35;
  EXPECT_EQ(message_of([&] { prepare(config); }),
            "prepare: train: none of 60 pairs is left after encoding (too_many_pieces 60): see --max-pieces");
  for (const auto& entry : std::filesystem::directory_iterator(config.output)) {
    EXPECT_EQ(before[entry.path().filename().string()], read_file(entry.path())) << entry.path();
    before.erase(entry.path().filename().string());
  }
  EXPECT_TRUE(before.empty());
}

TEST_F(PrepareTest, CountsUnknownPiecesAndDropsPairsOfThem) {
  prepare(clean_options());
  std::filesystem::copy(folder_ / "out" / "spm.model", folder_ / "spm.model");
  // Neither ξ nor ω occurs in the vocabulary's training text.
  PrepareOptions config = options(numbered("the quick brown fox", 60) + "ξξξξξ\n" + "the quick ω fox 3\n",
                                  numbered("der schnelle braune fuchs", 60) + "der fuchs\n" + "fuchs ω ω ω\n");
  config.use_vocabulary = folder_ / "spm.model";
  config.filter.max_ratio = 100;
  add_valid(config, "a ω fox\nω\n", "ein schneller fuchs\nω\n");
  const PrepareResult result = prepare(config);
  const PrepareReport &train = result.reports.at(0), &valid = result.reports.at(1);
  EXPECT_EQ(train[Finding::too_many_unknown].count, 1);
  EXPECT_THAT(train[Finding::too_many_unknown].examples.at(0), HasSubstr("train.src:61: ξξξξξ"));
  EXPECT_EQ(train.kept(), 61);
  EXPECT_EQ(train.source_pieces().unknown, 1);
  EXPECT_EQ(train.target_pieces().unknown, 3);
  EXPECT_EQ(train.source_pieces().all, Corpus::open(config.output, "train").source_tokens());
  EXPECT_EQ(valid.kept(), 2) << "held-out sets are not filtered";
  EXPECT_EQ(valid.source_pieces().unknown, 2);
  EXPECT_THAT(valid.table(), HasSubstr("2 of them <unk>"));
  const json::value stored = parse_json(read_file(config.output / "report.json")).value();
  EXPECT_EQ(stored.at("sets").at(1).at("target").at("unknown").as_int64(), 1);
  config.max_unknown = 1;
  EXPECT_EQ(prepare(config).reports.at(0).kept(), 62);
}

TEST_F(PrepareTest, FiltersByLengthAndPieces) {
  PrepareOptions config =
      options(numbered("the quick brown fox", 50) + "a b c d e f g\nx\nthe qzqzqzqzqzqzqzqzqzqzqz fox\n",
              numbered("der schnelle braune fuchs", 50) + "a b c d e f h\nx y\nder fuchs lief\n");
  config.filter.max_words = 6;
  config.filter.min_words = 2;
  config.max_pieces = 20;
  config.vocabulary.size = 50;
  const PrepareReport report = prepare(config).reports.at(0);
  EXPECT_EQ(report[Finding::too_long].count, 1);
  EXPECT_EQ(report[Finding::too_short].count, 1);
  EXPECT_EQ(report[Finding::too_many_pieces].count, 1);
  EXPECT_THAT(report[Finding::too_many_pieces].examples.at(0), HasSubstr("train.src:53: the qzqz"));
  EXPECT_EQ(report.kept(), 50);
  EXPECT_EQ(Corpus::open(config.output, "train").sentences(), 50);
}

TEST_F(PrepareTest, HeldOutSentencesAreRemovedFromTraining) {
  PrepareOptions config = clean_options();
  add_valid(config, "the quick  brown fox 5\nother\n", "anderes\nder schnelle braune fuchs 6\n");
  EXPECT_EQ(prepare(config).reports.at(0)[Finding::held_out].count, 2);
  config.filter.keep_held_out = true;
  EXPECT_EQ(prepare(config).reports.at(0).kept(), 60);
}

TEST_F(PrepareTest, HeldOutSentencesAreRecognisedInOtherForms) {
  PrepareOptions config = clean_options();
  add_valid(config, "the\u00ad quick brown fox 5\nthe quick\u2028brown fox ６\n\u200bother\nthe same\n",
            "anderes\neins\nder schnelle\u2581braune\ufeff fuchs 7\nu\u0308ber\n");
  EXPECT_EQ(prepare(config).reports.at(0)[Finding::held_out].count, 3);
  config = options(numbered("the quick brown fox", 60) + "the quick brown fox\u200b 3\nübrig\nwords\n",
                   numbered("der schnelle braune fuchs", 60) + "der schnelle braune fuchs ３\nu\u0308brig\n\u200b\n");
  const PrepareReport train = prepare(config).reports.at(0);
  EXPECT_EQ(train[Finding::duplicate].count, 1);
  EXPECT_EQ(train[Finding::identical].count, 1);
  EXPECT_EQ(train[Finding::empty].count, 1);
  EXPECT_EQ(train.kept(), 60);
}

/// Translations of "I bought an old book at the market" and the like, without spaces.
TEST_F(PrepareTest, KeepsPairsOfScriptsWithoutSpaces) {
  for (const char* target : {"我昨天在市场买了一本旧书。", "昨日、市場で古い本を買いました。",
                             "เมื่อวานผมซื้อหนังสือเก่าที่ตลาด", "ມື້ວານຂ້ອຍຊື້ປຶ້ມເກົ່າຢູ່ຕະຫຼາດ", "ម្សិលមិញខ្ញុំបានទិញសៀវភៅចាស់នៅផ្សារ",
                             "မနေ့ကဈေးမှာစာအုပ်အဟောင်းဝယ်ခဲ့တယ်", "ཁ་སང་ངས་ཁྲོམ་ནས་དཔེ་དེབ་རྙིང་པ་ཞིག་ཉོས་པ་ཡིན།"}) {
    PrepareOptions config = options(numbered("yesterday I bought an old book at the market", 60), numbered(target, 60));
    config.vocabulary.size = 90;
    config.filter.min_words = 2;
    config.filter.max_ratio = 2.5;
    EXPECT_EQ(prepare(config).reports.at(0).kept(), 60) << target;
    config.filter.max_words = 2;
    EXPECT_THAT(message_of([&] { prepare(config); }), HasSubstr("(too_long 60): see --max-words")) << target;
  }
}

TEST_F(PrepareTest, WarnsOfAReasonThatDropsMoreThanATenth) {
  const PrepareOptions config =
      options(numbered("the quick brown fox", 60) + "one\ntwo\nthree\nfour\nfive\nsix\nseven\n",
              numbered("der schnelle braune fuchs", 60) + numbered("a b c d e", 7));
  const PrepareReport report = prepare(config).reports.at(0);
  EXPECT_EQ(report.options(), "--max-ratio");
  ASSERT_EQ(report.warnings().size(), 1U);
  EXPECT_EQ(report.warnings()[0], "train: 7 of 67 pairs dropped: length ratio too large (--max-ratio), such as " +
                                      (folder_ / "train.src").string() + ":61: one ||| a b c d e 0");
  EXPECT_THAT(prepare(clean_options()).reports.at(0).warnings(), testing::IsEmpty());
}

TEST_F(PrepareTest, VocabularyIsTrainedOnThePairsThatTrainingSees) {
  const std::string source = numbered("the quick brown fox jumps over the lazy dog", 60);
  const std::string target = numbered("der schnelle braune fuchs springt", 60);
  const auto digest = [&](const std::string& more_source, const std::string& more_target) {
    PrepareOptions config = options(source + more_source, target + more_target);
    config.vocabulary.size = 60;
    config.max_pieces = 60;
    const PrepareReport train = prepare(config).reports.at(0);
    EXPECT_EQ(train.kept(), 60);
    return sha256_file(config.output / "spm.model");
  };
  const std::string clean = digest("", "");
  const auto noise = [](int characters) {  // letters that occur in the text
    std::string word;
    for (int i = 1; i <= characters; ++i) word += static_cast<char>('a' + std::int64_t{i} * i * 7919 % 25);
    return word;
  };
  std::string words;
  for (int i = 0; i < 60; ++i) words += noise(i % 5 + 2) + " ";
  EXPECT_EQ(digest(noise(150) + "\n" + noise(900) + "\n", "eins\nzwei\n"), clean);
  EXPECT_EQ(digest("one\n", noise(900) + "\n"), clean);
  EXPECT_EQ(digest(words + "\n", words + " 9\n"), clean);
}

TEST_F(PrepareTest, DropsLongWordsAndPairsWithoutSubwords) {
  const std::string word(1001, 'x');
  PrepareOptions config = options(numbered("the quick brown fox", 60) + word + "\n\ufffd\n",
                                  numbered("der schnelle braune fuchs", 60) + "eins\nzwei\n");
  add_valid(config, "a fox\n\ufffd\ufffd\nthe fox\n", "ein fuchs\nfuchs\nder fuchs\n");
  const PrepareResult result = prepare(config);  // nmt_nfkc makes U+FFFD a space
  EXPECT_EQ(result.reports.at(0)[Finding::long_word].count, 1);
  EXPECT_EQ(result.reports.at(0)[Finding::empty].count, 1);
  EXPECT_EQ(result.reports.at(0).kept(), 60);
  EXPECT_EQ(result.reports.at(1)[Finding::empty].count, 1);
  EXPECT_EQ(Corpus::open(config.output, "valid").sentences(), 2);
  EXPECT_EQ(ParallelText::open(config.output, "valid").source, (std::vector<std::string>{"a fox", "the fox"}));
}

TEST_F(PrepareTest, ReportsTargetLinesThatTheVocabularyChanges) {
  PrepareOptions config =
      options(numbered("the quick brown fox", 60), numbered("我买了，旧书", 20) + numbered("der Fuchs …", 40));
  config.vocabulary.size = 60;
  const PrepareReport changed = prepare(config).reports.at(0);
  EXPECT_EQ(changed.changed().count, 60);
  ASSERT_EQ(changed.changed().examples.size(), 3U);
  EXPECT_THAT(changed.changed().examples[0],
              HasSubstr("train.src:1: target '我买了，旧书 0' comes back as '我买了,旧书 0'"));
  EXPECT_THAT(changed.warnings().at(0), HasSubstr("train: 60 of 60 target lines come back changed"));
  EXPECT_THAT(changed.table(), HasSubstr("60  target lines that come back changed from the vocabulary\n"));
  config.vocabulary.normalization = "identity";
  EXPECT_EQ(prepare(config).reports.at(0).changed().count, 0);
}

TEST_F(PrepareTest, RefusesAFolderThatAnotherProcessWritesAndKeepsFilesOfOthers) {
  PrepareOptions config = clean_options();
  prepare(config);
  const std::string before = read_file(config.output / "manifest.json");
  std::filesystem::create_directories(config.output / "work.tmp");
  std::filesystem::create_directories(config.output / "work.part-mine");
  folder_.write("out/work.tmp/notes", "mine");
  folder_.write("out/work.part-mine/notes", "mine");
  {
    const WorkFolder held(config.output, "work");
    config.vocabulary.size = 41;
    EXPECT_THAT(message_of([&] { prepare(config); }), HasSubstr("out: process " + std::to_string(getpid()) + " on "));
    EXPECT_EQ(read_file(config.output / "manifest.json"), before);
  }
  prepare(config);
  EXPECT_EQ(load_manifest(config.output).vocabulary_size, 41);
  EXPECT_EQ(read_file(config.output / "work.tmp" / "notes"), "mine");
  EXPECT_EQ(read_file(config.output / "work.part-mine" / "notes"), "mine");
  EXPECT_FALSE(std::filesystem::exists(config.output / ".work.lock"));
}

TEST_F(PrepareTest, AppliesAnExistingVocabulary) {
  PrepareOptions config = clean_options();
  prepare(config);
  PrepareOptions again = clean_options(30);
  again.use_vocabulary = folder_.write("mine.model", read_file(config.output / "spm.model"));
  again.output = folder_ / "again";
  prepare(again);
  EXPECT_EQ(sha256_file(again.output / "spm.model"), sha256_file(config.output / "spm.model"));
  again.vocabulary.symbols = {">>fra<<"};
  prepare(again);
  EXPECT_EQ(Vocabulary::load(again.output / "spm.model").piece(load_manifest(config.output).vocabulary_size),
            ">>fra<<");
  again.use_vocabulary = folder_.write("junk.model", "junk");
  EXPECT_THROW(prepare(again), Failure);
}

TEST_F(PrepareTest, OpenFilesAreReplacedNotOverwritten) {
  PrepareOptions config = clean_options();
  add_valid(config, "a quick fox\n", "ein schneller fuchs\n");
  prepare(config);
  std::map<std::string, ino_t> before;
  for (const auto& entry : std::filesystem::directory_iterator(config.output)) {
    struct stat status{};
    ASSERT_EQ(::stat(entry.path().c_str(), &status), 0);
    before[entry.path().filename()] = status.st_ino;
  }
  const Vocabulary vocabulary = Vocabulary::load(config.output / "spm.model");
  const Corpus train = Corpus::open(config.output, "train");
  std::vector<std::ifstream> open_files;  // keeps the inode numbers of removed files in use
  for (const auto& [name, number] : before) open_files.emplace_back(config.output / name);

  PrepareOptions other = options(numbered("one two three", 45), numbered("eins zwei drei", 45));
  add_valid(other, "one 99\n", "eins 99\n");
  prepare(other);
  for (const auto& [name, number] : before) {
    struct stat status{};
    ASSERT_EQ(::stat((config.output / name).c_str(), &status), 0);
    EXPECT_NE(status.st_ino, number) << name;
  }
  ASSERT_EQ(train.sentences(), 60);
  for (std::int64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(vocabulary.decode(train.source(i)), "the quick brown fox " + std::to_string(i));
  }
  EXPECT_NE(Vocabulary::load(config.output / "spm.model").digest(), vocabulary.digest());
  EXPECT_EQ(sha256_hex(vocabulary.bytes()), vocabulary.digest());
}

TEST_F(PrepareTest, SetWithoutPairsIsNamedWithItsCounts) {
  PrepareOptions config = clean_options();
  add_valid(config, "a quick fox\n", "ein schneller fuchs\n");
  Manifest manifest = prepare(config).manifest;
  manifest.folder = config.output;
  manifest.require_pairs("train", "data.train_set");
  manifest.require_pairs("valid", "data.valid_set");
  for (ManifestSet& set : manifest.sets) set.sentences = set.source_tokens = set.target_tokens = 0;
  EXPECT_THAT(message_of([&] { manifest.require_pairs("valid", "data.valid_set"); }),
              testing::AllOf(HasSubstr("data.valid_set: set 'valid' of " + config.output.string() +
                                       " has 0 sentence pairs (0 source tokens, 0 target tokens)"),
                             HasSubstr("nmt prepare"), HasSubstr("data.valid_set=")));
  EXPECT_THAT(message_of([&] { manifest.require_pairs("train", "data.train_set"); }),
              HasSubstr("data.train_set: set 'train' of "));
  manifest.sets[1].sentences = 3;  // sentences of spaces only
  EXPECT_THAT(message_of([&] { manifest.require_pairs("valid", "data.valid_set"); }),
              HasSubstr("has 3 sentence pairs"));
}

TEST_F(PrepareTest, RefusesEmptyTrainingText) {
  EXPECT_THAT(message_of([&] { prepare(options("", "")); }), HasSubstr(" has no lines; expected pairs to train on"));
  EXPECT_FALSE(std::filesystem::exists(options("", "").output)) << "a failure leaves no folder behind";
  EXPECT_EQ(message_of([&] { prepare(options("a\nb\n", "a\n\n")); }),
            "prepare: train: none of 2 pairs is left after cleaning (empty 1, identical 1): see --keep-identical");
  EXPECT_THROW(prepare(PrepareOptions{}), UsageFailure);
}

TEST_F(PrepareTest, DamagedFilesAreDetectedByTheManifest) {
  const PrepareOptions config = clean_options();
  prepare(config);
  const auto file = config.output / "train.target.ids";
  const std::string whole = read_file(file);
  const auto open = [&] { Corpus::open(config.output, "train"); };

  std::filesystem::resize_file(file, whole.size() - 8);
  EXPECT_THAT(message_of(open),
              HasSubstr("train.target.ids: truncated or damaged, " + std::to_string(whole.size() - 8) +
                        " bytes, expected " + std::to_string(whole.size())));
  std::string changed = whole;
  changed[20] = static_cast<char>(changed[20] ^ 1);
  folder_.write("out/train.target.ids", changed);
  EXPECT_EQ(message_of(open), "");  // only the digest detects it
  EXPECT_THAT(message_of([&] { Corpus::open(config.output, "train", true); }), HasSubstr("SHA-256"));

  changed = whole;
  changed[19] = 0x40;  // the high byte of the first id
  folder_.write("out/train.target.ids", changed);
  const Corpus damaged = Corpus::open(config.output, "train");
  EXPECT_THAT(message_of([&] { damaged.target(0); }),
              testing::ContainsRegex("train.target.ids: damaged, sentence 1 has id 10737418[0-9]*, expected 0 to 39"));
  EXPECT_EQ(message_of([&] { damaged.target(1); }), "");

  std::string unordered = whole;
  unordered[whole.size() - 24 - 16 + 6] = 1;  // a high byte of the second-to-last offset
  folder_.write("out/train.target.ids", unordered);
  EXPECT_THAT(message_of(open), HasSubstr("offsets are not in order"));

  folder_.write("out/train.target.ids", "X" + whole.substr(1));
  EXPECT_THAT(message_of(open), HasSubstr("not an id file"));
  std::filesystem::remove(file);
  EXPECT_THAT(message_of(open), HasSubstr("train.target.ids"));
  std::filesystem::remove(config.output / "manifest.json");
  EXPECT_THAT(message_of(open), HasSubstr("manifest.json"));
}

TEST_F(PrepareTest, MalformedManifestsAreRefused) {
  const PrepareOptions config = clean_options();
  prepare(config);
  const std::string whole = read_file(config.output / "manifest.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = whole;
    changed.replace(changed.find(from), from.size(), to);
    folder_.write("out/manifest.json", changed);
    return message_of([&] { Corpus::open(config.output, "train"); });
  };
  EXPECT_THAT(with("\"version\":1", "\"version\":2"), HasSubstr("version 2"));
  EXPECT_THAT(with("\"sentences\":60", "\"sentences\":61"), HasSubstr("expected 61"));
  EXPECT_THAT(with("\"sentences\":60", "\"sentences\":-1"),
              HasSubstr("member 'sentences': expected an integer of at least 0, found -1"));
  EXPECT_THAT(with("\"name\":\"spm.model\"", "\"name\":\"../spm.model\""), HasSubstr("not the name of a file"));
  EXPECT_THAT(with("\"sets\"", "\"bets\""), HasSubstr("'sets' is missing"));
  EXPECT_THAT(with("{", "["), HasSubstr("manifest.json"));
}

TEST(CorpusTest, InMemoryDigestsDependOnEveryIdAndBoundary) {
  const auto digest = [](std::vector<std::vector<std::int32_t>> source) {
    return Corpus::from_memory(source, {{1}, {2}}).digest();
  };
  EXPECT_EQ(digest({{5, 6}, {7}}), digest({{5, 6}, {7}}));
  EXPECT_NE(digest({{5, 6}, {7}}), digest({{5}, {6, 7}}));
  EXPECT_THROW(Corpus::from_memory({{1}}, {}), Failure);
}

TEST(RealTextTest, Multi30kIsPreparedCompletely) {
  const char* data = std::getenv("BABELRING_DATA");
  const std::filesystem::path root =
      std::filesystem::path(data ? data : BABELRING_SOURCE_DIR "/../shared/data") / "multi30k";
  if (!std::filesystem::exists(root / "val.en.gz")) GTEST_SKIP() << "no real text in " << root << " (BABELRING_DATA)";
  const TemporaryFolder folder;
  PrepareOptions options;
  options.train = {{root / "val.en.gz", root / "val.de.gz"}};
  options.test = TextFiles{root / "test_2016_flickr.en.gz", root / "test_2016_flickr.de.gz"};
  options.output = folder.path();
  options.vocabulary.size = 2000;
  const PrepareResult result = prepare(options);
  EXPECT_EQ(result.reports.at(0).read(), 1014);
  EXPECT_EQ(result.manifest.set("test").sentences, 1000);
  const Corpus test = Corpus::open(folder.path(), "test", true);
  const ParallelText text = ParallelText::open(folder.path(), "test");
  const Vocabulary vocabulary = Vocabulary::load(folder / "spm.model");
  EXPECT_EQ(vocabulary.encode(text.target[500]).size(), test.target(500).size());
}

}  // namespace
}  // namespace babelring
