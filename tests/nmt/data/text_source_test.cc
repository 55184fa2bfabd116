#include "nmt/data/text_source.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "nmt/data/assignment.h"
#include "nmt/data/vocabulary.h"
#include "tests/nmt/data/synthetic.h"

namespace babelring {
namespace {

const PlanOptions updates_of_200{.tokens_per_update = 200, .max_length = 20};

Corpus reversed_sentences() {
  return make_synthetic({.task = SyntheticTask::reverse, .sentences = 300, .max_length = 12});
}

class WorldTest : public testing::TestWithParam<int> {};

TEST_P(WorldTest, RanksTogetherCoverTheUpdate) {
  const int world = GetParam();
  const Corpus corpus = reversed_sentences();
  const TextSource source(corpus, updates_of_200);
  DataPosition position;
  for (std::int64_t u = 1; u <= 20; ++u) {
    const UpdateBatches whole = source.make(u, position, {});
    const PackedBatch& one = whole.micro_batches.at(0);
    std::int64_t sentences = 0, source_tokens = 0, target_tokens = 0;
    std::size_t micro_batches = 0;
    for (int rank = 0; rank < world; ++rank) {
      const UpdateBatches share = source.make(u, position, {.rank = rank, .world = world, .micro_batch_tokens = 40});
      EXPECT_EQ(share.next, whole.next);
      EXPECT_EQ(share.global_target_tokens, whole.target_tokens);
      EXPECT_EQ(share.epoch, whole.epoch);
      if (rank == 0) micro_batches = share.micro_batches.size();
      EXPECT_EQ(share.micro_batches.size(), micro_batches);
      sentences += share.sentences;
      source_tokens += share.source_tokens;
      target_tokens += share.target_tokens;
      for (const PackedBatch& part : share.micro_batches) {
        EXPECT_TRUE(
            std::equal(part.source.ids.begin(), part.source.ids.end(), one.source.ids.begin() + part.first_source_row));
        EXPECT_TRUE(
            std::equal(part.target_out.begin(), part.target_out.end(), one.target_out.begin() + part.first_target_row));
      }
    }
    EXPECT_EQ(sentences, whole.global_sentences);
    EXPECT_EQ(source_tokens, whole.global_source_tokens);
    EXPECT_EQ(target_tokens, whole.global_target_tokens);
    position = whole.next;
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, WorldTest, testing::Values(1, 2, 4, 7));

/// About as many words as asked for become <unk>, but neither </s> nor <s>, other ones in another update, and the same
/// ones on any number of ranks.
TEST(TextSource, DroppedWordsFollowFromSeedUpdateAndRow) {
  const Corpus corpus = reversed_sentences();
  PlanOptions options = updates_of_200;
  options.source_word_dropout = 0.2;
  options.target_word_dropout = 0.4;
  const TextSource plain(corpus, updates_of_200), source(corpus, options);
  double tokens[2] = {}, dropped[2] = {};
  for (std::int64_t update = 1; update <= 20; ++update) {
    const PackedBatch whole = source.make(update, {}, {}).micro_batches.at(0);
    const PackedBatch given = plain.make(update, {}, {}).micro_batches.at(0);
    EXPECT_EQ(whole.target_out, given.target_out);
    for (const int side : {0, 1}) {
      const PackedSequences &found = side == 0 ? whole.source : whole.target_in,
                            &before = side == 0 ? given.source : given.target_in;
      ASSERT_EQ(found.offsets, before.offsets);
      for (std::size_t i = 0; i < found.ids.size(); ++i) {
        if (before.ids[i] < first_free_id) {
          EXPECT_EQ(found.ids[i], before.ids[i]) << "<s>, </s>";
          continue;
        }
        tokens[side] += 1;
        dropped[side] += found.ids[i] == unk_id ? 1 : 0;
        EXPECT_TRUE(found.ids[i] == unk_id || found.ids[i] == before.ids[i]);
      }
    }
    for (const int rank : {0, 1}) {
      const RankPart half{.rank = rank, .world = 2, .micro_batch_tokens = 40};
      for (const PackedBatch& part : source.make(update, {}, half).micro_batches) {
        EXPECT_TRUE(std::equal(part.source.ids.begin(), part.source.ids.end(),
                               whole.source.ids.begin() + part.first_source_row));
        EXPECT_TRUE(std::equal(part.target_in.ids.begin(), part.target_in.ids.end(),
                               whole.target_in.ids.begin() + part.first_target_row));
      }
    }
  }
  EXPECT_NEAR(dropped[0] / tokens[0], 0.2, 0.03);
  EXPECT_NEAR(dropped[1] / tokens[1], 0.4, 0.03);
  EXPECT_NE(source.make(1, {}, {}).micro_batches.at(0).source.ids,
            source.make(2, {}, {}).micro_batches.at(0).source.ids);
}

TEST(TextSource, UnitsThatMoveStayTheSame) {
  const Corpus corpus = reversed_sentences();
  const TextSource source(corpus, updates_of_200);
  const UpdateBatches whole = source.make(1, {}, {.micro_batch_tokens = 8, .units = 8});
  UpdateAssignment assignment(2);
  assignment.set(0, {5, 3});
  std::int64_t sentences = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const RankPart part{.rank = rank, .world = 2, .micro_batch_tokens = 8, .units = 8, .assignment = &assignment};
    const UpdateBatches share = source.make(1, {}, part);
    EXPECT_EQ(share.computed, rank == 0 ? (std::vector{7, 0, 1, 2, 3}) : (std::vector{4, 5, 6}));
    const std::size_t per_unit = share.micro_batches_per_unit();
    ASSERT_EQ(per_unit, whole.micro_batches_per_unit());
    for (std::size_t i = 0; i < share.micro_batches.size(); ++i) {
      const auto unit = static_cast<std::size_t>(share.computed[i / per_unit]);
      EXPECT_EQ(share.micro_batches[i].target_out, whole.micro_batches[unit * per_unit + i % per_unit].target_out);
    }
    sentences += share.sentences;
  }
  EXPECT_EQ(sentences, whole.sentences);
}

TEST_P(WorldTest, UnitsAreTheSameForEveryNumberOfRanks) {
  const int world = GetParam();
  const int units = 4 * world;
  const Corpus corpus = reversed_sentences();
  const TextSource source(corpus, updates_of_200);
  const UpdateBatches whole = source.make(1, {}, {.micro_batch_tokens = 8, .units = units});
  EXPECT_EQ(whole.units.total, units);
  ASSERT_EQ(whole.units.count, units);
  EXPECT_GT(whole.micro_batches_per_unit(), 1U) << "of at most 8 tokens";
  for (int rank = 0; rank < world; ++rank) {
    const UpdateBatches share =
        source.make(1, {}, {.rank = rank, .world = world, .micro_batch_tokens = 8, .units = units});
    EXPECT_EQ(share.units.first, 4 * rank);
    EXPECT_EQ(share.units.count, 4);
    ASSERT_EQ(share.micro_batches_per_unit(), whole.micro_batches_per_unit());
    const std::size_t first = whole.micro_batches_per_unit() * static_cast<std::size_t>(share.units.first);
    for (std::size_t i = 0; i < share.micro_batches.size(); ++i) {
      const PackedBatch &batch = share.micro_batches[i], &same = whole.micro_batches[first + i];
      EXPECT_EQ(batch.source.ids, same.source.ids);
      EXPECT_EQ(batch.target_out, same.target_out);
      EXPECT_EQ(batch.first_source_row, same.first_source_row);
      EXPECT_EQ(batch.first_target_row, same.first_target_row);
    }
  }
}

TEST(TextSource, ResumesAtAPositionThatTheCorpusHas) {
  const Corpus corpus = reversed_sentences();
  TextSource source(corpus, updates_of_200);
  const DataPosition second = source.make(1, {}, {}).next;
  EXPECT_EQ(source.resume(DataOrder::shuffled, second, 0.1), second);
  const DataPosition derived = source.resume(DataOrder::shuffled, std::nullopt, 1.5);
  EXPECT_EQ(derived, source.plan().position_at(1.5));
  EXPECT_EQ(source.resume(DataOrder::shuffled, DataPosition{.epoch = 1, .sentences = 300}, 1.5), derived);
}

TEST(TextSource, ResumesInTheOrderOfTheRun) {
  const Corpus corpus = reversed_sentences();
  TextSource source(corpus, updates_of_200);
  const std::vector<std::int32_t> shuffled = source.make(1, {}, {}).micro_batches.at(0).source.ids;
  TextSource resumed(corpus, updates_of_200);
  resumed.resume(DataOrder::pooled, DataPosition(), 0);
  EXPECT_NE(resumed.make(1, {}, {}).micro_batches.at(0).source.ids, shuffled);
}

TEST(TextSource, TellsTheSizeOfItsUpdates) {
  const Corpus corpus = Corpus::from_memory({{5, 6, 7}, {8, 9, 5}}, {{5}, {6}});  // 8 source, 4 target tokens with </s>
  const UpdateShape shape = TextSource(corpus, updates_of_200).shape();
  EXPECT_EQ(shape.max_length, 20);
  EXPECT_EQ(shape.target_tokens, 200);
  EXPECT_EQ(shape.source_tokens, 400);
}

}  // namespace
}  // namespace babelring
