#include "lab/emulated_rank.h"

#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "base/failure.h"
#include "nmt/data/text_source.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/train/trained_rank.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

insight::RankRecord small_record() {
  insight::RankRecord record;
  record.unit = "target tokens";
  record.size = 100;
  record.parameters = 7;
  record.task = "translation";
  record.precision = "bf16";
  record.jitter = {0.9, 1.1};
  const insight::OpWork work{.size = 100, .calls = 2, .ms = 1};
  record.ops = {{"forward", "linear_forward", 0.01, 2, 3, {work}}, {"optimizer", "adam_update", 0.5, 0, 4, {work}}};
  return record;
}

insight::RecordedModel small_run() {
  return {.parameters = 7, .task = "translation", .precision = "bf16"};
}

TEST(EmulatedRank, TakesTheTimesOfARecord) {
  const EmulatedTimes times = emulated_times(small_record(), "r.json", small_run(), 2);
  ASSERT_EQ(times.ops.size(), 2U);
  EXPECT_EQ(times.ops[1].phase, "optimizer");
  EXPECT_EQ(times.ops[1].op, "adam_update");
  EXPECT_EQ(times.ops[1].ms_per_call, 0.5);
  EXPECT_EQ(times.ops[0].ms_per_gflop, 2);
  EXPECT_EQ(times.ops[0].ms_per_gb, 3);
  EXPECT_EQ(times.factors, (std::vector<double>{0.9, 1.1}));
  EXPECT_NE(times.seed, emulated_times(small_record(), "r.json", small_run(), 1).seed);
}

TEST(EmulatedRank, HasTheProcessorsOfARecord) {
  insight::RankRecord record = small_record();
  record.threads = 2;
  EXPECT_EQ(emulated_times(record, "r.json", small_run(), 0).processors.computing, 0) << "the machine is not known";
  record.processors = 12;
  record.neighbours = 3;
  const RankProcessors processors = emulated_times(record, "r.json", small_run(), 0).processors;
  EXPECT_EQ(processors.computing, 2);
  EXPECT_EQ(processors.spare, 1);
}

TEST(EmulatedRank, RefusesARecordThatDoesNotFit) {
  EXPECT_THAT([] { emulated_times(small_record(), "r.json", {.parameters = 1234}, 0); },
              ThrowsMessage<UsageFailure>("r.json: the record is of a model with 7 parameters, the run's has 1,234"));
  EXPECT_THAT([] { emulated_times(small_record(), "r.json", {7, "gssm", "bf16"}, 0); },
              ThrowsMessage<UsageFailure>("r.json: the record is of task translation, the run of task gssm"));
  EXPECT_THAT([] { emulated_times(small_record(), "r.json", {7, "translation", "f32"}, 0); },
              ThrowsMessage<UsageFailure>("r.json: the record is of precision bf16, the run of f32"));
  insight::RankRecord table = small_record();
  table.ops.clear();
  EXPECT_THAT([&] { emulated_times(table, "r.json", small_run(), 0); },
              ThrowsMessage<UsageFailure>(HasSubstr("r.json: found no times of ops, expected a record of")));
}

TEST(EmulatedRank, ARecordSaysHowFarASizeIsOutside) {
  EXPECT_EQ(small_record().size_warning(200), "");
  EXPECT_EQ(small_record().size_warning(50), "");
  EXPECT_EQ(small_record().size_warning(250), "size 250 is 2.5 times the largest recorded one, 100");
  EXPECT_EQ(small_record().size_warning(10), "size 10 is 10.0 times smaller than the smallest recorded one, 100");
}

std::vector<StepRecord> train(const TrainConfig& config, bool shares_memory) {
  const Corpus corpus = make_synthetic({.sentences = 200, .vocabulary_size = pieces, .max_length = 12});
  ThreadGroup group(2, shares_memory);
  std::vector<Collector> records(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      const auto backend = config.emulated() ? make_emulated_backend({}, false) : make_cpu_backend(1);
      const StopRequest stop;
      TextSource source(corpus, config.plan_options());
      run_rank({.config = config,
                .backend = *backend,
                .communicator = *communicator,
                .source = source,
                .records = records[static_cast<std::size_t>(rank)],
                .stop = stop});
    });
  }
  for (std::thread& thread : threads) thread.join();
  return records[1].steps;
}

/// Everything but times and losses is that of a real run.
TEST(EmulatedRank, MovesTheBytesOfARealRun) {
  for (const bool shares_memory : {false, true}) {
    TrainConfig config = small_config();
    if (shares_memory) config.model = with_modern_layers(config.model);
    config.training.stop_after = "4u";
    const std::vector<StepRecord> real = train(config, shares_memory);
    config.training.device = DeviceChoice::emulated;
    const std::vector<StepRecord> emulated = train(config, shares_memory);
    ASSERT_EQ(emulated.size(), real.size());
    for (std::size_t i = 0; i < real.size(); ++i) {
      EXPECT_EQ(emulated[i].communication_bytes, real[i].communication_bytes);
      EXPECT_EQ(emulated[i].target_tokens, real[i].target_tokens);
      EXPECT_EQ(emulated[i].flops, real[i].flops);
      EXPECT_FALSE(emulated[i].skipped);
      EXPECT_TRUE(std::isnan(emulated[i].loss));
      EXPECT_TRUE(std::isnan(emulated[i].nll));
      EXPECT_TRUE(std::isnan(emulated[i].gradient_norm));
      EXPECT_FALSE(std::isnan(real[i].loss));
    }
  }
}

}  // namespace
}  // namespace babelring
