#include "nmt/decode/shortlist.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "base/failure.h"
#include "nmt/checkpoint/quantized_weights.h"
#include "nmt/checkpoint/safetensors.h"
#include "nmt/decode/pair_scorer.h"
#include "nmt/decode/translator.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/decode/tiny_model.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using Ids = std::vector<std::int32_t>;

const std::vector<std::string> boat_lines = {"the red house",
                                             "a boat sails on the sea and the old man sleeps",
                                             "boat",
                                             "the sea is old",
                                             "the house sleeps",
                                             "an old man sees a red boat"};

Vocabulary vocabulary_of(int size, bool byte_fallback = false) {
  std::size_t next = 0;
  const auto give = [&](std::string& line) {
    if (next == 8 * boat_lines.size()) return false;
    line = boat_lines[next++ % boat_lines.size()];
    return true;
  };
  return Vocabulary::from_bytes(train_vocabulary({.size = size, .byte_fallback = byte_fallback}, give), "vocabulary");
}

TEST(ShortlistTest, KeepsThePiecesThatWereAlignedMostOften) {
  const Vocabulary vocabulary = vocabulary_of(40);
  ShortlistCounts counts;
  const Ids source = {10, 11}, target = {20, 21, 20};
  const std::vector<AlignedPair> pairs = {{0, 0}, {0, 1}, {1, 2}};
  counts.add(source, target, pairs);
  counts.add(Ids{10}, Ids{22}, std::vector<AlignedPair>{{0, 0}});
  counts.add(Ids{10}, Ids{22}, std::vector<AlignedPair>{{0, 0}});
  const Shortlist two = counts.shortlist(2, 3, vocabulary);
  EXPECT_THAT(two.pieces_of(10), ElementsAre(22, 20)) << "of equal counts the smaller id";
  EXPECT_THAT(two.pieces_of(11), ElementsAre(20));
  EXPECT_THAT(two.pieces_of(12), ElementsAre());
  EXPECT_THAT(two.frequent(), ElementsAre(20, 22, 21));
  EXPECT_THAT(counts.shortlist(2, 1, vocabulary).list_of(Ids{11, 30, 11}), ElementsAre(unk_id, eos_id, 11, 20, 30))
      << "frequent, special and the source's own pieces";
  const PieceTexts texts(vocabulary);
  Constraints constraints(texts);
  constraints.set_prefix({7}, "", {});
  constraints.add_phrase({22, 39});
  EXPECT_THAT(counts.shortlist(1, 0, vocabulary).list_of(Ids{10}, &constraints),
              ElementsAre(unk_id, eos_id, 7, 10, 22, 39));
}

TEST(ShortlistTest, AlwaysAllowsPiecesOfBytes) {
  const Vocabulary vocabulary = vocabulary_of(300, true);
  const Ids list = ShortlistCounts().shortlist(1, 1, vocabulary).list_of({});
  EXPECT_EQ(std::ssize(list), 2 + 256);
}

TEST(ShortlistTest, IsReadAsItWasWritten) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "list";
  const Vocabulary vocabulary = vocabulary_of(40);
  std::vector<Ids> pieces(static_cast<std::size_t>(vocabulary.size()));
  pieces[5] = {9, 3};
  pieces[39] = {0};
  const Shortlist written(pieces, {8, 4}, vocabulary);
  written.save(file);
  const Shortlist read = Shortlist::load(file, vocabulary);
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) EXPECT_EQ(read.pieces_of(id), written.pieces_of(id));
  EXPECT_THAT(read.frequent(), ElementsAre(8, 4));
  const Vocabulary other = vocabulary_of(41);
  EXPECT_THAT([&] { Shortlist::load(file, other); },
              ThrowsMessage<UsageFailure>(HasSubstr("list: is a shortlist of another vocabulary, ")));
}

TEST(ShortlistTest, DamagedFilesAreRefused) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "list";
  const Vocabulary vocabulary = vocabulary_of(40);
  const Ids few(3), one = {1}, wrong = {40}, ends(40, 1);
  const auto write = [&](const char* kind, const Ids& pieces, const Ids& all_ends) {
    SafetensorsWriter writer(file,
                             {{"pieces", {std::ssize(pieces)}, DType::i32},
                              {"ends", {std::ssize(all_ends)}, DType::i32},
                              {"frequent", {1}, DType::i32}},
                             {{"kind", kind}, {"vocabulary", vocabulary.digest()}});
    writer.add(ConstTensor(pieces.data(), {std::ssize(pieces)}, DType::i32));
    writer.add(ConstTensor(all_ends.data(), {std::ssize(all_ends)}, DType::i32));
    writer.add(ConstTensor(one.data(), {1}, DType::i32));
    writer.finish();
  };
  const auto refused = [&](const std::string& reason) {
    EXPECT_THAT([&] { Shortlist::load(file, vocabulary); }, ThrowsMessage<Failure>(HasSubstr("list: " + reason)));
  };
  write("weights", one, ends);
  refused("found another safetensors file, expected one of `nmt shortlist`");
  write("shortlist 1", one, few);
  refused("ends are 3 numbers, expected 40 that rise to 1");
  write("shortlist 1", wrong, ends);
  refused("pieces[0] is 40, expected 0 to 39");
}

/// Lists of odd sizes, of which one is a token's alone.
std::vector<Ids> lists_of(std::int64_t vocabulary, std::size_t sources) {
  std::vector<Ids> lists;
  for (std::size_t i = 0; i < sources; ++i) {
    Ids list = {unk_id, eos_id};
    for (std::int32_t id = first_free_id; id < vocabulary; ++id) {
      if ((static_cast<std::size_t>(id) * 7 + i) % (i + 1) == 0) list.push_back(id);
    }
    lists.push_back(list);
  }
  lists.back() = {unk_id, eos_id};
  return lists;
}

class ListedSearchTest : public testing::TestWithParam<DType> {
 protected:
  static constexpr std::int64_t vocabulary = 97;
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  TinyModel tiny_{*backend_, vocabulary, NormPosition::pre, 5, GetParam() == DType::int8 ? DType::f32 : GetParam()};
  std::unique_ptr<Transformer> quantized_ =
      GetParam() == DType::int8 ? quantized_copy(tiny_.transformer, *backend_) : nullptr;
  const Transformer& model() const { return quantized_ ? *quantized_ : tiny_.transformer; }
};
INSTANTIATE_TEST_SUITE_P(Cpu, ListedSearchTest, testing::Values(DType::f32, DType::bf16, DType::int8),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

TEST_P(ListedSearchTest, ProbabilitiesAreThoseOfTheListWhateverTheOthersAre) {
  const auto sources = made_up_sources({5, 3, 9, 1}, vocabulary);
  const auto lists = lists_of(vocabulary, sources.size());
  const auto spans = spans_of(sources);
  CachedDecoder whole(model(), *backend_), listed(model(), *backend_), alone(model(), *backend_);
  whole.start(spans, 4, 1);
  listed.start(spans, 4, 1, lists);
  const std::vector<CachedDecoder::Row> rows = {{bos_id, 2}, {bos_id, 0}, {bos_id, 1}, {bos_id, 3}};
  whole.step(rows, 3, true);
  listed.step(rows, 3, true);
  for (std::int32_t row = 0; row < 4; ++row) {
    const auto sentence = static_cast<std::size_t>(rows[static_cast<std::size_t>(row)].sentence);
    const auto all = whole.log_probabilities(row), found = listed.log_probabilities(row);
    double mass = 0;
    for (const std::int32_t id : lists[sentence]) mass += std::exp(all[static_cast<std::size_t>(id)]);
    for (std::int32_t id = 0; id < vocabulary; ++id) {
      const float value = found[static_cast<std::size_t>(id)];
      if (!std::ranges::binary_search(lists[sentence], id)) {
        EXPECT_EQ(value, -std::numeric_limits<float>::infinity()) << id;
      } else {
        EXPECT_NEAR(value, all[static_cast<std::size_t>(id)] - std::log(mass), 1e-5) << id;
      }
    }
    alone.start(std::span(spans).subspan(sentence, 1), 1, 1, std::span(lists).subspan(sentence, 1));
    const CachedDecoder::Row first{bos_id, 0};
    alone.step({&first, 1}, 3, true);
    EXPECT_TRUE(std::ranges::equal(alone.log_probabilities(0), found));
    const NextTokens next = listed.next(row);
    EXPECT_EQ(next.log_probabilities[0], *std::ranges::max_element(found));
    EXPECT_EQ(next.log_probabilities[0], found[static_cast<std::size_t>(next.ids[0])]);
  }
  EXPECT_EQ(listed.next(3).log_probabilities.size(), 3);
  EXPECT_TRUE(std::isinf(listed.next(3).log_probabilities[2])) << "the list has two";
}

TEST_P(ListedSearchTest, AListOfAllPiecesChangesNoBit) {
  const auto sources = made_up_sources({5, 3, 9, 1}, vocabulary);
  Ids all(static_cast<std::size_t>(vocabulary));
  std::iota(all.begin(), all.end(), 0);
  const std::vector<Ids> lists(sources.size(), all);
  BeamSearch search(model(), *backend_);
  const BeamOptions options{.beam = 3, .n_best = 3};
  const auto expected = search.search(spans_of(sources), options);
  const auto found = search.search(spans_of(sources), options, {.lists = lists});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (std::size_t k = 0; k < expected[i].size(); ++k) {
      EXPECT_EQ(found[i][k].ids, expected[i][k].ids);
      EXPECT_EQ(found[i][k].log_probability, expected[i][k].log_probability);
    }
  }
}

TEST_P(ListedSearchTest, SearchesDependNeitherOnTheBatchNorOnThreads) {
  const auto sources = made_up_sources({5, 3, 9, 1, 12, 0}, vocabulary);
  const auto lists = lists_of(vocabulary, sources.size());
  const auto spans = spans_of(sources);
  const auto backend = make_cpu_backend(3);
  BeamSearch search(model(), *backend_), threads(model(), *backend);
  const BeamOptions options{.beam = 4, .n_best = 2};
  const auto together = search.search(spans, options, {.lists = lists});
  const auto by_threads = threads.search(spans, options, {.lists = lists});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto alone =
        search.search(std::span(spans).subspan(i, 1), options, {.lists = std::span(lists).subspan(i, 1)}).front();
    ASSERT_EQ(together[i].size(), alone.size());
    for (std::size_t k = 0; k < alone.size(); ++k) {
      EXPECT_EQ(together[i][k].ids, alone[k].ids);
      EXPECT_EQ(together[i][k].log_probability, alone[k].log_probability);
      EXPECT_EQ(by_threads[i][k].ids, alone[k].ids);
      EXPECT_EQ(by_threads[i][k].log_probability, alone[k].log_probability);
      for (const std::int32_t id : alone[k].ids) EXPECT_TRUE(std::ranges::binary_search(lists[i], id)) << id;
    }
  }
}

class ListedTranslatorTest : public testing::Test {
 protected:
  ListedTranslatorTest() {
    for (std::int32_t id = first_free_id; id < vocabulary_.size(); ++id) {
      pieces_[static_cast<std::size_t>(id)] = {(id * 5) % vocabulary_.size(), (id * 11 + 3) % vocabulary_.size()};
    }
    options_.shortlist = std::make_shared<const Shortlist>(pieces_, Ids{4, 9}, vocabulary_);
  }
  /// Pieces of the best translations that are not on the list of their line.
  std::int64_t outside(const std::vector<Translation>& found) const {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const Ids list = options_.shortlist->list_of(vocabulary_.encode(boat_lines[i]));
      for (const Rendering& one : found[i].n_best) {
        for (const std::int32_t id : one.ids) count += std::ranges::binary_search(list, id) ? 0 : 1;
      }
    }
    return count;
  }
  std::vector<std::string> texts(const std::vector<Translation>& found) const {
    std::vector<std::string> texts;
    for (const Translation& one : found) texts.push_back(one.text());
    return texts;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
  Vocabulary vocabulary_ = vocabulary_of(40);
  TinyModel tiny_{*backend_, vocabulary_.size()}, other_{*backend_, vocabulary_.size(), NormPosition::pre, 8};
  Translator translator_{tiny_.transformer, vocabulary_, *backend_};
  std::vector<Ids> pieces_ = std::vector<Ids>(40);
  TranslateOptions options_{.beam = {.beam = 3}};
};

TEST_F(ListedTranslatorTest, TranslationsHaveListedPiecesInAnyBatch) {
  const auto plain = translator_.translate(boat_lines, {.beam = {.beam = 3}});
  EXPECT_GT(outside(plain), 0) << "or else the test shows nothing";
  const auto expected = translator_.translate(boat_lines, options_);
  EXPECT_EQ(outside(expected), 0);
  for (const std::int64_t sentences : {1, 2, 5}) {
    TranslateOptions options = options_;
    options.batch_sentences = sentences;
    EXPECT_EQ(texts(translator_.translate(boat_lines, options)), texts(expected));
  }
  EXPECT_EQ(texts(translator_.translate(boat_lines, {.beam = {.beam = 3}})), texts(plain)) << "lists do not stay";
}

TEST_F(ListedTranslatorTest, RulesSamplesAndEnsemblesKeepToTheList) {
  TranslateOptions options = options_;
  options.beam.n_best = 3;
  options.beam.rules = {.min_length = 3, .no_repeat_ngram = 2, .repetition_penalty = 1.2, .suppressed = {4}};
  const auto ruled = translator_.translate(boat_lines, options);
  EXPECT_EQ(outside(ruled), 0);
  for (const Translation& one : ruled) EXPECT_EQ(std::ranges::count(one.n_best.front().ids, 4), 0);
  options = options_;
  options.sample = DrawOptions{.samples = 5};
  EXPECT_EQ(outside(translator_.translate(boat_lines, options)), 0);
  options.sample->distinct = true;
  EXPECT_EQ(outside(translator_.translate(boat_lines, options)), 0);
  options.sample->distinct = false;
  options.mbr = MbrOptions{.n_best = 1, .beam_candidates = true};
  EXPECT_EQ(outside(translator_.translate(boat_lines, options)), 0);
  for (const Combination combination : {Combination::probabilities, Combination::logarithms}) {
    const std::vector<EnsembleMember> members = {{&tiny_.transformer, 1}, {&other_.transformer, 2}};
    Translator ensemble(members, combination, vocabulary_, *backend_);
    const auto expected = ensemble.translate(boat_lines, options_);
    EXPECT_EQ(outside(expected), 0);
    TranslateOptions alone = options_;
    alone.batch_sentences = 1;
    EXPECT_EQ(texts(ensemble.translate(boat_lines, alone)), texts(expected));
  }
}

TEST_F(ListedTranslatorTest, PrefixesAndTermsAreAlwaysAllowed) {
  const PieceTexts pieces(vocabulary_);
  std::vector<Prefix> prefixes;
  const std::vector<std::string> begin = {"the old ma", "a sea ", "", "boat", "red house sle", "man"};
  for (const std::string& text : begin) prefixes.push_back({text, "prefix"});
  const auto begun = translator_.translate(boat_lines, options_, prefixes);
  for (std::size_t i = 0; i < boat_lines.size(); ++i) {
    EXPECT_TRUE(begun[i].text().starts_with(begin[i].substr(0, begin[i].find_last_not_of(' ') + 1))) << begun[i].text();
    EXPECT_GT(std::ssize(begun[i].n_best.front().ids), std::ssize(vocabulary_.encode(begin[i], TextSide::target)));
  }
  TranslateOptions options = options_;
  options.glossary = std::make_shared<Glossary>(std::vector<Term>{{"sea", "an old boat"}, {"house", "red sea"}},
                                                "glossary", vocabulary_, pieces);
  for (const Translation& one : translator_.translate(boat_lines, options)) {
    for (const FoundTerm& term : one.terms) EXPECT_FALSE(term.missed) << term.term.second << ": " << one.text();
  }
}

TEST_F(ListedTranslatorTest, AlignmentsAndPartsOfLongLinesWork) {
  TranslateOptions options = options_;
  options.align = AttentionChoice();
  options.max_source_pieces = 8;
  const auto found = translator_.translate(boat_lines, options);
  EXPECT_GT(found[1].parts, 1);
  EXPECT_EQ(outside(found), 0);
  for (const Translation& one : found) {
    std::int64_t rows = 0;
    for (const Attention::Part& part : one.n_best.front().attention.parts) rows += part.target_pieces();
    EXPECT_EQ(rows, std::ssize(one.n_best.front().pieces()));
  }
}

/// Led through its own translations, the model aligns as it did when it found them.
TEST_F(ListedTranslatorTest, APairIsAlignedAsItsTranslation) {
  const auto found = translator_.translate(boat_lines, {.beam = {.beam = 1}, .align = AttentionChoice()});
  LinePairs pairs;
  for (std::size_t i = 0; i < boat_lines.size(); ++i) {
    pairs.sources.push_back(boat_lines[i]);
    pairs.source_ids.push_back(vocabulary_.encode(boat_lines[i]));
    pairs.target_ids.push_back(found[i].n_best.front().pieces());
  }
  pairs.sources.emplace_back();
  pairs.source_ids.emplace_back();
  pairs.target_ids.emplace_back();
  PairAligner aligner(tiny_.transformer, *backend_, AttentionChoice());
  const auto aligned = aligner.align(pairs);
  for (std::size_t i = 0; i < boat_lines.size(); ++i) {
    EXPECT_EQ(aligned[i], aligned_pieces(found[i].n_best.front().attention)) << boat_lines[i];
  }
  EXPECT_TRUE(aligned.back().empty());
}

}  // namespace
}  // namespace babelring
