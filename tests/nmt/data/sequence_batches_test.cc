#include "nmt/data/sequence_batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/failure.h"

namespace babelring {
namespace {

using testing::ElementsAre;
using testing::ThrowsMessage;

/// Sequence i is i * 10, i * 10 + 1, ….
void count_up(std::int64_t sequence, std::span<std::int32_t> tokens) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(sequence * 10) + static_cast<std::int32_t>(i);
}

TEST(SequenceBatches, PredictEveryTokenButTheFirst) {
  const PackedBatch batch = pack_sequences({2, 4}, 4, count_up);
  EXPECT_THAT(batch.target_in.ids, ElementsAre(20, 21, 22, 30, 31, 32));
  EXPECT_THAT(batch.target_out, ElementsAre(21, 22, 23, 31, 32, 33));
  EXPECT_THAT(batch.target_in.offsets, ElementsAre(0, 3, 6));
  EXPECT_THAT(batch.source.offsets, ElementsAre(0, 0, 0));
  EXPECT_EQ(batch.first_target_row, 6);
}

TEST(SequenceBatches, RanksShareOutAnUpdate) {
  for (const int world : {1, 2, 3, 8}) {
    std::vector<std::int32_t> all;
    std::size_t micro_batches = 0;
    for (int rank = 0; rank < world; ++rank) {
      const UpdateBatches part =
          make_sequence_batches({.update = 7, .sequences = 5, .length = 4},
                                {.rank = rank, .world = world, .micro_batch_tokens = 6}, count_up);
      EXPECT_EQ(part.update, 7);
      EXPECT_EQ(part.global_sentences, 5);
      EXPECT_EQ(part.global_target_tokens, 15);
      if (rank == 0) micro_batches = part.micro_batches.size();
      EXPECT_EQ(part.micro_batches.size(), micro_batches) << "the same number on every rank";
      std::int64_t targets = 0;
      for (const PackedBatch& batch : part.micro_batches) {
        EXPECT_LE(batch.target_in.tokens(), 6);
        targets += batch.target_in.tokens();
        all.insert(all.end(), batch.target_out.begin(), batch.target_out.end());
      }
      EXPECT_EQ(part.target_tokens, targets);
      EXPECT_EQ(part.sentences * 3, targets);
    }
    EXPECT_THAT(all, ElementsAre(1, 2, 3, 11, 12, 13, 21, 22, 23, 31, 32, 33, 41, 42, 43)) << world << " ranks";
  }
}

TEST(SequenceBatches, FollowTheSharesOfTheRanks) {
  UpdateShares shares(2);
  shares.set(7, {3, 1});
  std::vector<std::int64_t> sequences;
  for (int rank = 0; rank < 2; ++rank) {
    const UpdateBatches part =
        make_sequence_batches({.update = 7, .sequences = 8, .length = 4},
                              {.rank = rank, .world = 2, .micro_batch_tokens = 6, .shares = &shares}, count_up);
    sequences.push_back(part.sentences);
    EXPECT_EQ(part.micro_batches.size(), 3U) << "the same number on every rank";
  }
  EXPECT_THAT(sequences, ElementsAre(6, 2));
}

TEST(SequenceBatches, ALongSequenceIsAMicroBatchOfItsOwn) {
  const UpdateBatches part =
      make_sequence_batches({.update = 1, .sequences = 3, .length = 9}, {.micro_batch_tokens = 4}, count_up);
  EXPECT_EQ(part.micro_batches.size(), 3U);
  EXPECT_EQ(make_sequence_batches({.update = 1, .sequences = 3, .length = 9}, {}, count_up).micro_batches.size(), 1U);
}

TEST(SequenceBatches, RefuseSizesWithoutTargets) {
  EXPECT_THAT([] { check_sequence_sizes(4, 1); },
              ThrowsMessage<UsageFailure>("sequences: 4 an update of 1 tokens, expected at least 1 of at least 2"));
}

TEST(SequenceBatches, UnitsAreTheSameForEveryNumberOfRanks) {
  const SequenceUpdate update{.update = 1, .sequences = 21, .length = 5};
  const UpdateBatches whole = make_sequence_batches(update, {.micro_batch_tokens = 4, .units = 8}, count_up);
  ASSERT_EQ(whole.units.count, 8);
  EXPECT_EQ(whole.micro_batches_per_unit(), 3U);
  for (const int world : {2, 4, 8}) {
    for (int rank = 0; rank < world; ++rank) {
      const RankPart part{.rank = rank, .world = world, .micro_batch_tokens = 4, .units = 8};
      const UpdateBatches share = make_sequence_batches(update, part, count_up);
      ASSERT_EQ(share.micro_batches.size(), 24U / static_cast<unsigned>(world));
      for (std::size_t i = 0; i < share.micro_batches.size(); ++i) {
        const PackedBatch& same = whole.micro_batches[3 * static_cast<std::size_t>(share.units.first) + i];
        EXPECT_EQ(share.micro_batches[i].target_out, same.target_out);
        EXPECT_EQ(share.micro_batches[i].first_target_row, same.first_target_row);
      }
    }
  }
}

TEST(SequenceBatches, UnitsThatMoveStayTheSame) {
  const SequenceUpdate update{.update = 1, .sequences = 21, .length = 5};
  const UpdateBatches whole = make_sequence_batches(update, {.units = 8}, count_up);
  UpdateShares shares(2);
  shares.set(0, {3, 5});
  const UpdateBatches fast =
      make_sequence_batches(update, {.rank = 1, .world = 2, .units = 8, .shares = &shares}, count_up);
  EXPECT_THAT(fast.computed, ElementsAre(3, 4, 5, 6, 7));
  ASSERT_EQ(fast.micro_batches.size(), 5U);
  std::int64_t tokens = 0;
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(fast.micro_batches[i].target_out, whole.micro_batches[i + 3].target_out);
    tokens += fast.micro_batches[i].target_in.tokens();
  }
  EXPECT_EQ(fast.target_tokens, tokens);
}

}  // namespace
}  // namespace babelring
