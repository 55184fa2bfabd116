#include "nmt/data/sequence_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/failure.h"
#include "nmt/data/assignment.h"
#include "nmt/data/gssm/finite_data.h"
#include "tests/nmt/data/gssm/graphs.h"
#include "tests/nmt/data/temporary_folder.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

class SequenceSourceTest : public testing::Test {
 protected:
  SequenceSourceTest() {
    written_ = write_gssm_data({.config = {.gssm = chain_graph(), .sequence_length = 16, .seed = 5},
                                .output = folder_ / "data",
                                .train = 30,
                                .test = 4,
                                .entropy_sequences = 4});
    manifest_ = load_manifest(folder_ / "data");
  }

  SequenceSource source(std::int64_t sequences_per_update = 8) const {
    return SequenceSource(SequenceFile(manifest_, "train"), sequences_per_update, 3);
  }

  /// The sequences of an epoch from `position` on, in the order in which one rank sees them.
  static std::vector<std::vector<std::int32_t>> read_epoch(const SequenceSource& source, DataPosition position = {}) {
    std::vector<std::vector<std::int32_t>> sequences;
    const std::int64_t epoch = position.epoch;
    while (position.epoch == epoch) {
      const UpdateBatches update = source.make(1, position, {});
      const auto& targets = update.micro_batches.at(0).target_out;
      for (auto at = targets.begin(); at != targets.end(); at += 15) sequences.emplace_back(at, at + 15);
      position = update.next;
    }
    return sequences;
  }

  TemporaryFolder folder_;
  GssmDataResult written_;
  Manifest manifest_;
};

TEST_F(SequenceSourceTest, EveryEpochHasAllSequencesInItsOwnOrder) {
  const SequenceSource by_eight = source();
  const auto first = read_epoch(by_eight), second = read_epoch(by_eight, {.epoch = 1});
  EXPECT_EQ(first.size(), 30U);
  EXPECT_NE(first, second);
  EXPECT_THAT(second, testing::UnorderedElementsAreArray(first));
  EXPECT_EQ(read_epoch(source(7)), first) << "the order does not depend on the size of an update";
  EXPECT_EQ(by_eight.updates_per_epoch(), 4);
  const UpdateBatches last = by_eight.make(4, {.epoch = 0, .sentences = 24}, {});
  EXPECT_EQ(last.global_sentences, 6);
  EXPECT_EQ(last.epoch, 1);
  EXPECT_EQ(last.next, (DataPosition{1, 0}));
}

TEST_F(SequenceSourceTest, ResumesAtAPositionOrAfterItsEpochs) {
  SequenceSource by_eight = source();
  const DataPosition position{.epoch = 2, .sentences = 16};
  EXPECT_EQ(by_eight.resume(DataOrder::shuffled, position, 2.5), position);
  EXPECT_EQ(by_eight.resume(DataOrder::shuffled, std::nullopt, 2.5), position);
  EXPECT_EQ(by_eight.resume(DataOrder::shuffled, DataPosition{0, 99}, 1), (DataPosition{1, 0}));
  EXPECT_THAT(
      [&] { by_eight.make(1, {.epoch = 0, .sentences = 30}, {}); },
      ThrowsMessage<Failure>("sequences: epoch 0, 30 sequences done; expected an epoch from 0 and fewer than 30 "
                             "sequences"));
}

TEST_F(SequenceSourceTest, AHeldOutSetHasTheEntropyOfItsManifest) {
  const SequenceFileSet test(manifest_, "test");
  EXPECT_EQ(test.sequences(), 4);
  EXPECT_EQ(test.length(), 16);
  EXPECT_NEAR(test.entropy(1, 3, 1), 2 * 15 * written_.entropy.nats, 1e-9);
  EXPECT_TRUE(std::isnan(SequenceFileSet(manifest_, "train").entropy(0, 1, 1)));
}

TEST_F(SequenceSourceTest, RefusesOtherDataInOneLine) {
  EXPECT_THAT([&] { SequenceFile(manifest_, "valid"); },
              ThrowsMessage<Failure>(HasSubstr("no set 'valid', only train, test")));
  Manifest pairs = manifest_;
  pairs.sets[0].source_ids = pairs.sets[0].target_ids;
  EXPECT_THAT([&] { SequenceFile(pairs, "train"); },
              ThrowsMessage<UsageFailure>(HasSubstr("holds 30 sentence pairs, expected sequences of `nmt gssm data`")));
  Manifest fewer = manifest_;
  fewer.sets[0].sentences = 29;
  EXPECT_THAT([&] { SequenceFile(fewer, "train"); },
              ThrowsMessage<Failure>(HasSubstr("30 sequences, expected 29 by its manifest")));
  for (const std::int64_t sequences : {0, 8}) {
    const std::int64_t length = sequences == 0 ? 16 : 1;
    EXPECT_THAT([&] { check_sequence_sizes(sequences, length); },
                ThrowsMessage<UsageFailure>(HasSubstr("expected at least 1 of at least 2")));
  }
  EXPECT_THAT([&] { manifest_.require_pairs("train", "data.train_set"); },
              ThrowsMessage<Failure>(HasSubstr("holds sequences of `nmt gssm data`, expected sentence pairs")));
}

TEST_F(SequenceSourceTest, RefusesSequencesOfOtherLengths) {
  const std::string name = manifest_.set("train").target_ids.name;
  const auto of_lengths = [&](std::initializer_list<std::size_t> lengths) {
    IdFileWriter writer(folder_ / "data" / name);
    for (const std::size_t length : lengths) writer.add(std::vector<std::int32_t>(length, 1));
    writer.finish();
    Manifest manifest = manifest_;
    manifest.sets[0].target_ids = describe_file(folder_ / "data", name);
    manifest.sets[0].sentences = writer.sentences();
    return SequenceFile(manifest, "train");
  };
  const SequenceFile uneven = of_lengths({4, 3});
  std::vector<std::int32_t> tokens(4);
  uneven.read(0, tokens);
  EXPECT_THAT([&] { uneven.read(1, tokens); },
              ThrowsMessage<Failure>(HasSubstr("sequence 1 has 3 tokens, the first has 4")));
  EXPECT_THAT([&] { of_lengths({1}); },
              ThrowsMessage<Failure>(HasSubstr("sequences of 1 tokens, expected at least 2")));
}

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
  UpdateAssignment assignment(2);
  assignment.set(7, {3, 1});
  std::vector<std::int64_t> sequences;
  for (int rank = 0; rank < 2; ++rank) {
    const UpdateBatches part =
        make_sequence_batches({.update = 7, .sequences = 8, .length = 4},
                              {.rank = rank, .world = 2, .micro_batch_tokens = 6, .assignment = &assignment}, count_up);
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
  UpdateAssignment assignment(2);
  assignment.set(0, {3, 5});
  const UpdateBatches fast =
      make_sequence_batches(update, {.rank = 1, .world = 2, .units = 8, .assignment = &assignment}, count_up);
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
