#include "lab/record/rank_recorder.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "nmt/data/text_source.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/small_training.h"

namespace babelring {
namespace {

using testing::Contains;
using testing::HasSubstr;

/// Updates of one size whose matmul takes 2 ms a GFLOP and 0.1 ms a call.
RecordedSize recorded_size(double size, double disturbance = 0) {
  RecordedSize recorded{.size = size, .updates = {}};
  for (int i = 0; i < 5; ++i) {
    RecordedUpdate update;
    for (const char* phase : {"forward", "backward"}) {
      insight::OpWork work{.calls = 4, .gflop = size / 100, .gb = 0.001, .ms = 0};
      work.ms = (4 * 0.1 + 2 * work.gflop) * (1 + disturbance * (i - 2));
      update.ops[{phase, "matmul"}] = work;
    }
    update.target_tokens = size;
    update.other_ms = 3;
    update.between_ops_ms = {{"forward", 0.5}, {"backward", -0.25}};
    update.ready = {1, 0.5, 0.25};
    recorded.updates.push_back(std::move(update));
  }
  return recorded;
}

TEST(RankRecorderTest, MakesARecordOfSeveralSizes) {
  const auto record = rank_record_of({recorded_size(50), recorded_size(100), recorded_size(200)}, 1,
                                     {1'000'000, 500'000, 250'000}, 2.5);
  EXPECT_EQ(record.size, 100);
  EXPECT_EQ(record.parameters, 1'750'000);
  EXPECT_NEAR(record.phase_ms("forward").at(100), 2.4 + 0.5, 1e-9) << "ops, and the time between them";
  EXPECT_NEAR(record.phase_ms("backward").at(150), 3.4, 1e-9);
  EXPECT_NEAR(record.compute_error, 0, 1e-9);
  EXPECT_EQ(record.compute_comparisons, 3);
  EXPECT_EQ(record.quality, "good");
  ASSERT_FALSE(record.times.empty());
  EXPECT_EQ(record.times[0].phase, "forward") << "backward has no time between its ops";
  EXPECT_EQ(record.times[0].ms, 0.5);
  EXPECT_THAT(record.other_ms, Contains(testing::DoubleNear(3, 1e-9)));
  // From the last parameter on: 1 MB; 2 MB no longer fit beside it; then 4 MB, a bucket larger than wanted.
  ASSERT_EQ(record.buckets.size(), 3);
  EXPECT_DOUBLE_EQ(record.buckets[0].ready, 0.25);
  EXPECT_DOUBLE_EQ(record.buckets[1].ready, 0.5);
  EXPECT_DOUBLE_EQ(record.buckets[2].megabytes, 4);
  EXPECT_DOUBLE_EQ(record.buckets[2].ready, 1);
  EXPECT_TRUE(insight::rank_record_from_json(to_json(record)));
}

TEST(RankRecorderTest, SaysThatAMachineWasDisturbed) {
  const auto record = rank_record_of({recorded_size(100, 0.1)}, 0, {1000}, 4);
  EXPECT_THAT(record.quality, HasSubstr("the machine was disturbed"));
  EXPECT_EQ(record.compute_comparisons, 0) << "one size compares nothing";
  EXPECT_EQ(record.compute_error, 0);
}

TEST(RankRecorderTest, RecordsTheOpsOfATraining) {
  TrainConfig config = small_config();
  config.training.stop_after = "5u";
  const Corpus corpus =
      make_synthetic({.task = SyntheticTask::reverse, .sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  TextSource source(corpus, config.plan_options());
  const auto communicator = make_single_communicator();
  const auto backend = make_cpu_backend(1);
  Collector records;
  RankRecorder recorder;
  const StopRequest stop;
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = source,
                   .records = records,
                   .stop = stop,
                   .lab = &recorder,
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
  ASSERT_EQ(recorder.updates().size(), 3) << "the first two warm up";
  for (std::size_t i = 0; i < 3; ++i) {
    const RecordedUpdate& update = recorder.updates()[i];
    const StepRecord& step = records.steps[i + 2];
    EXPECT_EQ(update.target_tokens, static_cast<double>(step.target_tokens));
    EXPECT_LE(update.op_ms(), step.times.step) << "one thread runs the ops";
    double gflop = 0;
    for (const auto& [name, work] : update.ops) gflop += work.gflop;
    EXPECT_NEAR(gflop, step.flops * 1e-9, 0.01 * gflop);
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      EXPECT_TRUE(std::ranges::any_of(update.ops, [&](const auto& op) { return op.first.first == phase; })) << phase;
    }
    ASSERT_EQ(update.ready.size(), trainer.model().parameters().all().size());
    const auto [first, last] = std::ranges::minmax_element(update.ready);
    EXPECT_LT(*first, *last) << "the decoder's gradients are complete before the encoder's";
  }
}

}  // namespace
}  // namespace babelring
