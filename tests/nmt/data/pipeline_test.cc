#include "nmt/data/batch_pipeline.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/failure.h"
#include "nmt/data/batch_plan.h"
#include "nmt/data/text_source.h"
#include "nmt/data/vocabulary.h"
#include "tests/nmt/data/synthetic.h"

namespace babelring {
namespace {

const PlanOptions small_updates{.tokens_per_update = 200};

Corpus small_corpus() {
  return make_synthetic({.task = SyntheticTask::reverse, .sentences = 300, .max_length = 12});
}

bool same(const PackedBatch& a, const PackedBatch& b) {
  return a.source.ids == b.source.ids && a.source.offsets == b.source.offsets && a.target_in.ids == b.target_in.ids &&
         a.target_in.offsets == b.target_in.offsets && a.target_out == b.target_out &&
         a.first_source_row == b.first_source_row && a.first_target_row == b.first_target_row;
}

TEST(BatchTest, PacksPairsWithTheirControlIds) {
  const Corpus corpus = Corpus::from_memory({{5, 6}, {7}, {}}, {{8}, {9, 10}, {11}});
  UpdatePlan update;
  update.sentences = {2, 0, 1};
  const PackedBatch batch =
      make_batch(corpus, update, {.first = 1, .last = 3, .first_source_row = 1, .first_target_row = 2});
  EXPECT_EQ(batch.source.ids, (std::vector<std::int32_t>{5, 6, eos_id, 7, eos_id}));
  EXPECT_EQ(batch.source.offsets, (std::vector<std::int32_t>{0, 3, 5}));
  EXPECT_EQ(batch.target_in.ids, (std::vector<std::int32_t>{bos_id, 8, bos_id, 9, 10}));
  EXPECT_EQ(batch.target_in.offsets, (std::vector<std::int32_t>{0, 2, 5}));
  EXPECT_EQ(batch.target_out, (std::vector<std::int32_t>{8, eos_id, 9, 10, eos_id}));
  EXPECT_EQ(batch.first_source_row, 1);
  EXPECT_EQ(batch.first_target_row, 2);
}

TEST(BatchTest, EmptySliceGivesAnEmptyBatch) {
  const Corpus corpus = Corpus::from_memory({{5}}, {{8}});
  const PackedBatch batch = make_batch(corpus, UpdatePlan{}, BatchSlice{});
  EXPECT_EQ(batch.source.sentences(), 0);
  EXPECT_EQ(batch.target_in.tokens(), 0);
}

TEST(BatchTest, SequentialBatchesCoverARangeInOrder) {
  const Corpus corpus = small_corpus();
  const std::vector<PackedBatch> batches = sequential_batches(corpus, 10, 200, 50);
  std::int64_t sentence = 10, source_rows = 0;
  for (const PackedBatch& batch : batches) {
    EXPECT_LE(batch.source.tokens(), 50);
    EXPECT_EQ(batch.first_source_row, source_rows);
    source_rows += batch.source.tokens();
    for (std::int64_t i = 0; i < batch.source.sentences(); ++i, ++sentence) {
      const auto first = static_cast<std::size_t>(batch.source.offsets[static_cast<std::size_t>(i)]);
      EXPECT_EQ(batch.source.ids[first], corpus.source(sentence)[0]);
    }
  }
  EXPECT_EQ(sentence, 200);
}

TEST(PipelineTest, ResumesAnywhereWithTheSameBatches) {
  const Corpus corpus = small_corpus();
  const TextSource source(corpus, small_updates);
  BatchPipeline whole(source, {.part = {.micro_batch_tokens = 60}});
  std::vector<UpdateBatches> updates;
  for (int u = 0; u < 40; ++u) updates.push_back(whole.next());
  for (const std::size_t from : {1U, 7U, 23U, 39U}) {
    const TextSource again(corpus, small_updates);
    BatchPipeline resumed(again, {.part = {.micro_batch_tokens = 60},
                                  .start = updates[from - 1].next,
                                  .first_update = static_cast<std::int64_t>(from) + 1});
    for (std::size_t u = from; u < updates.size(); ++u) {
      const UpdateBatches next = resumed.next();
      EXPECT_EQ(next.update, updates[u].update);
      EXPECT_EQ(next.next, updates[u].next);
      ASSERT_EQ(next.micro_batches.size(), updates[u].micro_batches.size());
      for (std::size_t m = 0; m < next.micro_batches.size(); ++m) {
        EXPECT_TRUE(same(next.micro_batches[m], updates[u].micro_batches[m]));
      }
    }
  }
}

TEST(PipelineTest, SeveralThreadsDeliverTheSameUpdatesInOrder) {
  const Corpus corpus = small_corpus();
  const TextSource source(corpus, small_updates);
  BatchPipeline one(source, {.part = {.micro_batch_tokens = 60}});
  BatchPipeline four(source, {.part = {.micro_batch_tokens = 60}, .prefetch = 2, .threads = 4});
  for (int u = 0; u < 60; ++u) {
    const UpdateBatches expected = one.next(), found = four.next();
    EXPECT_EQ(found.update, expected.update);
    EXPECT_EQ(found.next, expected.next);
    ASSERT_EQ(found.micro_batches.size(), expected.micro_batches.size());
    for (std::size_t m = 0; m < found.micro_batches.size(); ++m) {
      EXPECT_TRUE(same(found.micro_batches[m], expected.micro_batches[m]));
    }
  }
}

TEST(PipelineTest, StopsAtAnyTime) {
  const Corpus corpus = small_corpus();
  const TextSource source(corpus, small_updates);
  for (int taken = 0; taken < 30; ++taken) {
    BatchPipeline pipeline(source, {.prefetch = 1 + taken % 4, .threads = 1 + taken % 3});
    for (int u = 0; u < taken; ++u) EXPECT_EQ(pipeline.next().update, u + 1);
    if (taken % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(PipelineTest, RethrowsTheThreadsExceptionOnEveryCall) {
  const auto two_updates = [](std::int64_t update) {
    if (update == 3) fail("disk on fire");
    UpdateBatches batches;
    batches.update = update;
    return batches;
  };
  BatchPipeline pipeline(two_updates, 1, 8);
  EXPECT_EQ(pipeline.next().update, 1);
  EXPECT_EQ(pipeline.next().update, 2);
  EXPECT_THROW(pipeline.next(), Failure);
  EXPECT_THROW(pipeline.next(), Failure);
}

TEST(PipelineTest, RefusesOptionsOutOfRange) {
  const Corpus corpus = small_corpus();
  const TextSource source(corpus, small_updates);
  EXPECT_THROW(BatchPipeline(source, {.part = {.rank = 1, .world = 1}}), Failure);
  EXPECT_THROW(BatchPipeline(source, {.part = {.world = 0, .micro_batch_tokens = 100}}), Failure);
  EXPECT_THROW(BatchPipeline(source, {.part = {.micro_batch_tokens = -1}}), Failure);
  EXPECT_THROW(BatchPipeline(source, {.first_update = 0}), Failure);
  EXPECT_THROW(BatchPipeline(source, {.prefetch = 0}), Failure);
  EXPECT_THROW(BatchPipeline(source, {.threads = 0}), Failure);
}

TEST(SyntheticTest, CopiesAndReversesWithinTheVocabulary) {
  const Corpus copy = make_synthetic({.sentences = 50, .vocabulary_size = 9, .min_length = 2, .max_length = 6});
  const Corpus reverse = make_synthetic(
      {.task = SyntheticTask::reverse, .sentences = 50, .vocabulary_size = 9, .min_length = 2, .max_length = 6});
  ASSERT_EQ(copy.sentences(), 50);
  for (std::int64_t i = 0; i < 50; ++i) {
    const auto source = copy.source(i);
    EXPECT_GE(source.size(), 2U);
    EXPECT_LE(source.size(), 6U);
    EXPECT_TRUE(std::equal(source.begin(), source.end(), copy.target(i).begin(), copy.target(i).end()));
    EXPECT_TRUE(std::equal(source.begin(), source.end(), reverse.target(i).rbegin(), reverse.target(i).rend()));
    for (const std::int32_t id : source) EXPECT_TRUE(id >= first_free_id && id < 9);
  }
}

}  // namespace
}  // namespace babelring
