#include "nmt/data/segment_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <array>
#include <map>
#include <thread>

#include "base/failure.h"
#include "base/protobuf.h"
#include "nmt/core/random.h"
#include "nmt/data/corpus.h"
#include "nmt/data/text_source.h"
#include "nmt/data/vocabulary.h"
#include "tests/nmt/data/synthetic.h"

namespace babelring {
namespace {

using Ids = std::vector<std::int32_t>;

const std::vector<std::string> sampled_text = {"the quick brown fox jumps over the lazy dog",
                                               "der schnelle braune Fuchs springt",
                                               "über den faulen Hund",
                                               "pack my box with five dozen liquor jugs",
                                               "the dog sleeps while the fox runs over the hill",
                                               "the foxes and the dogs jumped over the hills",
                                               "the lazy foxes sleep quickly while the quick dogs run"};
constexpr int long_enough = 100;
const std::vector<std::int64_t> every_sentence = {0, 1, 2, 3, 4, 5, 6};

std::string trained(const VocabularyOptions& options) {
  std::size_t at = 0;
  return train_vocabulary(options, [&](std::string& line) {
    if (at == sampled_text.size()) return false;
    line = sampled_text[at++];
    return true;
  });
}

struct Case {
  VocabularyOptions vocabulary;
  SegmentationOptions options;
};

class SegmentSamplerTest : public testing::TestWithParam<Case> {
 protected:
  const std::string model = trained(GetParam().vocabulary);
  const Vocabulary vocabulary = Vocabulary::from_bytes(model, "test");
  const SegmentSampler sampler{vocabulary, GetParam().options, 7, long_enough};

  Corpus corpus() const {
    std::vector<Ids> ids;
    for (const std::string& line : sampled_text) ids.push_back(vocabulary.encode(line));
    return Corpus::from_memory(ids, ids);
  }
};

TEST_P(SegmentSamplerTest, KeepsTheTextAndChangesThePieces) {
  Random random(1);
  for (const std::string& line : sampled_text) {
    const Ids ids = vocabulary.encode(line);
    int others = 0;
    for (int i = 0; i < 50; ++i) {
      const Ids drawn = sampler.draw(ids, TextSide::source, random);
      ASSERT_EQ(vocabulary.decode(drawn), line);
      others += drawn != ids ? 1 : 0;
    }
    EXPECT_GT(others, 10) << line;
  }
}

/// By the number of times that each cut was drawn, among those that both drew at least 5 times on average.
double chi_squared_per_degree(const std::map<Ids, std::array<double, 2>>& counts) {
  double sum = 0;
  int cuts = 0;
  for (const auto& [cut, count] : counts) {
    if (count[0] + count[1] < 10) continue;
    const double difference = count[0] - count[1];
    sum += difference * difference / (count[0] + count[1]);
    ++cuts;
  }
  EXPECT_GT(cuts, 5);
  return sum / (cuts - 1);
}

/// SentencePiece draws from a generator of each thread, seeded once for the process.
TEST_P(SegmentSamplerTest, DrawsWithTheFrequenciesOfSentencePiece) {
  constexpr int draws = 20000;
  sentencepiece::SetRandomGeneratorSeed(11);
  for (const std::string line : {"over the lazy dog", "der schnelle Fuchs"}) {
    std::map<Ids, std::array<double, 2>> counts;
    std::thread([&] {
      sentencepiece::SentencePieceProcessor theirs;
      ASSERT_TRUE(theirs.LoadFromSerializedProto(model).ok());
      const SegmentationOptions& options = GetParam().options;
      const auto alpha = static_cast<float>(options.sampling > 0 ? options.sampling : options.bpe_dropout);
      for (int i = 0; i < draws; ++i) {
        std::vector<int> ids;
        ASSERT_TRUE(theirs.SampleEncode(line, -1, alpha, &ids).ok());
        ++counts[{ids.begin(), ids.end()}][0];
      }
    }).join();
    Random random(3);
    const Ids ids = vocabulary.encode(line);
    for (int i = 0; i < draws; ++i) ++counts[sampler.draw(ids, TextSide::source, random)][1];
    // The mean is 1 with a standard deviation of at most sqrt(2 / 5).
    EXPECT_LT(chi_squared_per_degree(counts), 2) << line;
  }
}

TEST_P(SegmentSamplerTest, ASegmentationDependsOnEpochSentenceAndSideAlone) {
  const Corpus all = corpus();
  const Corpus together = sampler.draw(all, 3, every_sentence);
  const Corpus next = sampler.draw(all, 4, every_sentence);
  const auto cut = [](std::span<const std::int32_t> ids) { return Ids(ids.begin(), ids.end()); };
  int same_side = 0, same_epoch = 0;
  for (std::int64_t i = 0; i < all.sentences(); ++i) {
    const Corpus one = sampler.draw(all, 3, std::vector{i});
    EXPECT_EQ(cut(one.source(0)), cut(together.source(i)));
    EXPECT_EQ(cut(one.target(0)), cut(together.target(i)));
    same_side += cut(together.source(i)) == cut(together.target(i)) ? 1 : 0;
    same_epoch += cut(together.source(i)) == cut(next.source(i)) ? 1 : 0;
  }
  EXPECT_LT(same_side, 3);
  EXPECT_LT(same_epoch, 3);
}

TEST_P(SegmentSamplerTest, RanksTogetherDrawTheUpdateOfOne) {
  const Corpus all = corpus();
  const TextSource source(all, {.tokens_per_update = 60, .max_length = long_enough}, {}, sampler);
  EXPECT_GT(source.growth().target, 1);
  EXPECT_EQ(source.shape().target_tokens, 60);
  DataPosition position;
  for (std::int64_t update = 1; update <= 6; ++update) {
    const UpdateBatches whole = source.make(update, position, {});
    Ids sources, targets;
    std::int64_t tokens = 0;
    for (int rank = 0; rank < 2; ++rank) {
      const UpdateBatches part = source.make(update, position, {.rank = rank, .world = 2});
      EXPECT_EQ(part.global_target_tokens, whole.target_tokens);
      for (const PackedBatch& batch : part.micro_batches) {
        EXPECT_EQ(batch.first_target_row, std::ssize(targets));
        sources.insert(sources.end(), batch.source.ids.begin(), batch.source.ids.end());
        targets.insert(targets.end(), batch.target_out.begin(), batch.target_out.end());
      }
      tokens += part.target_tokens;
    }
    EXPECT_EQ(sources, whole.micro_batches.at(0).source.ids);
    EXPECT_EQ(targets, whole.micro_batches.at(0).target_out);
    EXPECT_EQ(tokens, whole.global_target_tokens);
    position = whole.next;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SegmentSamplerTest,
                         testing::Values(Case{{.model = "bpe", .size = 80}, {.bpe_dropout = 0.3}},
                                         Case{{.model = "bpe", .size = 320, .byte_fallback = true},
                                              {.bpe_dropout = 0.3}},
                                         Case{{.model = "unigram", .size = 60}, {.sampling = 0.3}}));

TEST(SegmentSampler, SegmentsAsSentencePieceWhereAlmostNoMergeIsLeftOut) {
  const Vocabulary vocabulary = Vocabulary::from_bytes(trained({.model = "bpe", .size = 80}), "test");
  const SegmentSampler sampler(vocabulary, {.bpe_dropout = 1e-12}, 1, long_enough);
  Random random(1);
  for (const std::string& line : sampled_text) {
    EXPECT_EQ(sampler.draw(vocabulary.encode(line), TextSide::source, random), vocabulary.encode(line));
  }
}

TEST(SegmentSampler, KeepsSymbolsBytesAndUnknownCharacters) {
  for (const bool bytes : {false, true}) {
    const Vocabulary vocabulary = Vocabulary::from_bytes(
        trained({.model = "bpe", .size = bytes ? 330 : 80, .byte_fallback = bytes, .symbols = {">>fra<<"}}), "test");
    const SegmentSampler sampler(vocabulary, {.bpe_dropout = 0.99}, 1, long_enough);
    Random random(1);
    const Ids symbols = vocabulary.encode(">>fra<<"), ids = vocabulary.encode(">>fra<< the 語 dog");
    const Ids drawn = sampler.draw(ids, TextSide::source, random);
    EXPECT_EQ(vocabulary.decode(drawn), vocabulary.decode(ids));
    EXPECT_GT(drawn.size(), ids.size());
    EXPECT_EQ(std::ranges::count(drawn, symbols.back()), 1) << "the symbol is one piece";
    EXPECT_EQ(std::ranges::count(drawn, unk_id), std::ranges::count(ids, unk_id));
  }
}

/// The model with one piece of type UNUSED.
std::string with_unused_piece(const std::string& model, std::int32_t unused) {
  ProtobufMessage result;
  std::int32_t id = 0;
  for (ProtobufReader fields(model); fields.next(); id += fields.field() == 1 ? 1 : 0) {
    const bool is_it = fields.field() == 1 && id == unused;
    std::string_view text;
    float score = 0;
    for (ProtobufReader piece(is_it ? fields.bytes() : ""); piece.next();) {
      if (piece.field() == 1) text = piece.bytes();
      if (piece.field() == 2) score = piece.number();
    }
    if (is_it) {
      result.message(1, ProtobufMessage().bytes(1, text).number(2, score).integer(3, 5));
    } else {
      result.whole(fields.whole());
    }
  }
  return result.text();
}

/// A piece that is not used is made by merges and then falls into its parts.
TEST(SegmentSampler, GivesPartsOfUnusedPieces) {
  const std::string whole = trained({.model = "bpe", .size = 80});
  const Vocabulary all = Vocabulary::from_bytes(whole, "all");
  const std::int32_t the = all.encode("the").at(0);
  ASSERT_EQ(all.encode("the").size(), 1U);
  const std::string model = with_unused_piece(whole, the);
  const Vocabulary vocabulary = Vocabulary::from_bytes(model, "unused");
  const SegmentSampler sampler(vocabulary, {.bpe_dropout = 1e-12}, 1, long_enough);
  Random random(1);
  for (const std::string& line : sampled_text) {
    const Ids ids = vocabulary.encode(line);
    EXPECT_EQ(sampler.draw(ids, TextSide::source, random), ids);
    EXPECT_EQ(std::ranges::count(ids, the), 0);
  }
}

TEST(SegmentSampler, SegmentsEachSideByItsModelAndOnlyTheChosenSides) {
  const std::string whole = trained({.model = "bpe", .size = 80});
  const Vocabulary joint = Vocabulary::from_bytes(whole, "joint");
  const auto is_short = [&](std::int32_t id) { return id < 3 || joint.piece(id).size() < 5; };
  const Vocabulary both =
      Vocabulary::from_bytes(join_models({.source = with_some_pieces(whole, is_short), .target = whole}), "both");
  const Ids source = both.encode(sampled_text[0]), target = both.encode(sampled_text[0], TextSide::target);
  const Corpus corpus = Corpus::from_memory({source}, {target});
  const SegmentSampler sampler(both, {.bpe_dropout = 0.2}, 1, long_enough);
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    const Corpus drawn = sampler.draw(corpus, epoch, std::vector<std::int64_t>{0});
    EXPECT_TRUE(std::ranges::all_of(drawn.source(0), is_short));
  }
  for (const SampledSides sides : {SampledSides::source, SampledSides::target}) {
    const SegmentSampler one(both, {.bpe_dropout = 0.5, .sides = sides}, 1, long_enough);
    const Corpus drawn = one.draw(corpus, 0, std::vector<std::int64_t>{0});
    EXPECT_EQ(std::ranges::equal(drawn.source(0), source), sides == SampledSides::target);
    EXPECT_EQ(std::ranges::equal(drawn.target(0), target), sides == SampledSides::source);
  }
}

TEST(SegmentSampler, ASentenceThatBecomesTooLongStaysAsItIs) {
  const Vocabulary vocabulary = Vocabulary::from_bytes(trained({.model = "bpe", .size = 80}), "test");
  const Ids ids = vocabulary.encode(sampled_text[0]);
  const Corpus corpus = Corpus::from_memory({ids}, {ids});
  const int max_length = static_cast<int>(ids.size()) + 2;  // with </s>, and one piece more
  const SegmentSampler sampler(vocabulary, {.bpe_dropout = 0.5}, 1, max_length);
  for (std::int64_t epoch = 0; epoch < 50; ++epoch) {
    const Corpus drawn = sampler.draw(corpus, epoch, std::vector<std::int64_t>{0});
    EXPECT_LT(drawn.source_length(0), max_length);
  }
}

/// Sentences that are left out of training stay as they are, and do not count.
TEST(SegmentSampler, MeasuresTheGrowthOfTrainedSentences) {
  const Vocabulary vocabulary = Vocabulary::from_bytes(trained({.model = "bpe", .size = 80}), "test");
  const Ids ids = vocabulary.encode(sampled_text[0]);
  Ids longer;
  for (int i = 0; i < 20; ++i) longer.insert(longer.end(), ids.begin(), ids.end());
  const SegmentationOptions options{.bpe_dropout = 0.5};
  const SegmentSampler sampler(vocabulary, options, 1, long_enough);
  const double trained_alone = sampler.growth(Corpus::from_memory({ids}, {ids})).target;
  EXPECT_GT(trained_alone, 1);
  EXPECT_EQ(sampler.growth(Corpus::from_memory({ids, longer}, {ids, longer})).target, trained_alone);
  EXPECT_EQ(sampler.growth(Corpus::from_memory({longer}, {longer})).target, 1);
}

/// Pieces "▁the" and "▁dog" of both sides, aligned crosswise, stay aligned by their letters.
TEST(SegmentSampler, LinksFollowTheText) {
  const Vocabulary vocabulary = Vocabulary::from_bytes(trained({.model = "bpe", .size = 80}), "test");
  const Ids words = vocabulary.encode("the dog");
  const auto first_of_dog = static_cast<std::int32_t>(vocabulary.encode("the").size());
  Ids links;
  const auto count = static_cast<std::int32_t>(words.size());
  for (std::int32_t target = 0; target < count; ++target) {
    for (std::int32_t source = 0; source < count; ++source) {
      if ((source < first_of_dog) != (target < first_of_dog)) links.insert(links.end(), {source, target});
    }
  }
  const Corpus corpus = Corpus::from_memory({words}, {words}, {links});
  const SegmentSampler sampler(vocabulary, {.bpe_dropout = 0.5}, 1, long_enough);
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const Corpus drawn = sampler.draw(corpus, epoch, std::vector<std::int64_t>{0});
    const auto word_of = [&](std::span<const std::int32_t> ids, std::int32_t piece) {
      const Ids before(ids.begin(), ids.begin() + piece + 1);
      return vocabulary.decode(before).size() > 3;
    };
    std::vector<bool> linked(static_cast<std::size_t>(drawn.target_length(0)));
    const std::span<const std::int32_t> found = drawn.links(0);
    for (std::size_t i = 0; i < found.size(); i += 2) {
      EXPECT_NE(word_of(drawn.source(0), found[i]), word_of(drawn.target(0), found[i + 1]));
      linked[static_cast<std::size_t>(found[i + 1])] = true;
    }
    EXPECT_THAT(linked, testing::Each(true)) << epoch;
  }
}

TEST(SegmentSampler, RefusesTheOptionOfTheOtherKindOfModel) {
  const Vocabulary bpe = Vocabulary::from_bytes(trained({.model = "bpe", .size = 80}), "bpe");
  const Vocabulary unigram = Vocabulary::from_bytes(trained({.model = "unigram", .size = 50}), "unigram");
  const auto refusal = [](const Vocabulary& vocabulary, const SegmentationOptions& options) -> std::string {
    try {
      SegmentSampler(vocabulary, options, 1, long_enough);
    } catch (const UsageFailure& failure) {
      return failure.what();
    }
    return "";
  };
  EXPECT_EQ(refusal(bpe, {.sampling = 0.2}), "data.sampling: 0.2, but the vocabulary is of BPE; use data.bpe_dropout");
  EXPECT_EQ(refusal(unigram, {.bpe_dropout = 0.1}),
            "data.bpe_dropout: 0.1, but the vocabulary is a unigram model; use data.sampling");
}

}  // namespace
}  // namespace babelring
