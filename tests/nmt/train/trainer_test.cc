#include "nmt/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <thread>

#include "nmt/data/batch.h"
#include "nmt/data/text_source.h"
#include "nmt/parallel/gradient_comm.h"
#include "tests/nmt/checkpoint/poison.h"
#include "tests/nmt/comm/fake_nccl.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/synthetic.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/small_training.h"
#include "tests/reference/test_backends.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

Corpus small_corpus() {
  return make_synthetic(
      {.task = SyntheticTask::reverse, .sentences = 500, .vocabulary_size = pieces, .max_length = 12});
}

/// Trains one rank. Writes no checkpoints if `folder` is empty.
void train_rank(const TrainConfig& config, const Corpus& corpus, Communicator& communicator, const fs::path& folder,
                Collector& records, const StopRequest& stop = {}, const std::string& device = "cpu",
                int vocabulary = pieces) {
  const auto backend = make_test_backend(device);
  const GradientComm gradient_comm =
      choose_gradient_comm(config.communication, 1 << 20, *backend, communicator, [] { return FakeNccl::library(); });
  Communicator& ranks = gradient_comm.nccl ? *gradient_comm.nccl : communicator;
  std::optional<Checkpointer> keeper;
  if (!folder.empty()) keeper.emplace(config, folder, "", *backend, ranks, records);
  TextSource source(corpus, config.plan_options());
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = ranks,
                   .source = source,
                   .checkpoints = keeper ? &*keeper : nullptr,
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
}

/// Trains `ranks` ranks as threads and returns the records of each rank.
std::vector<Collector> train_all(const TrainConfig& config, int ranks, const fs::path& folder = {},
                                 bool shares_memory = false, const std::string& device = "cpu", int vocabulary = pieces,
                                 int hosts = 1) {
  const Corpus corpus = small_corpus();
  ThreadGroup group(ranks, shares_memory, hosts);
  std::vector<Collector> collectors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto communicator = group.rank(rank);
      train_rank(config, corpus, *communicator, folder, collectors[static_cast<std::size_t>(rank)], {}, device,
                 vocabulary);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return collectors;
}

/// The step records of rank 0.
std::vector<StepRecord> train(const TrainConfig& config, int ranks, const fs::path& folder = {},
                              bool shares_memory = false, const std::string& device = "cpu") {
  return train_all(config, ranks, folder, shares_memory, device)[0].steps;
}

TEST(Trainer, OneTwoAndFourRanksSeeTheSameLosses) {
  TrainConfig config = small_config();
  config.training.stop_after = "50u";
  config.model.attention_dropout = config.model.activation_dropout = 0.1;
  const std::vector<StepRecord> one = train(config, 1);
  ASSERT_EQ(one.size(), 50U);
  for (const int ranks : {2, 4}) {
    const std::vector<StepRecord> many = train(config, ranks);
    ASSERT_EQ(many.size(), one.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      EXPECT_NEAR(many[i].loss, one[i].loss, 2e-4 * one[i].loss) << ranks << " ranks, update " << i + 1;
      EXPECT_NEAR(many[i].gradient_norm, one[i].gradient_norm, 1e-2 * one[i].gradient_norm);
      EXPECT_EQ(many[i].update_target_tokens, one[i].update_target_tokens);
    }
  }
}

/// The bits of an update, except for times.
void expect_same_updates(const std::vector<StepRecord>& found, const std::vector<StepRecord>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(found[i].weights_digest, expected[i].weights_digest) << "update " << i + 1;
    EXPECT_EQ(found[i].loss, expected[i].loss) << "update " << i + 1;
    EXPECT_EQ(found[i].gradient_norm, expected[i].gradient_norm) << "update " << i + 1;
  }
}

/// The collectives of threads add in the order of ranks, which is a tree for two ranks and in shared memory.
class TrainerByUnits : public testing::TestWithParam<const char*> {};

TEST_P(TrainerByUnits, GivesTheSameBitsForEveryNumberOfRanks) {
  FakeNccl::reset();
  TrainConfig config = small_config();
  config.training.stop_after = "3u";
  config.training.reproducible = Reproducible::ranks;
  config.training.freeze = "*norm*";
  config.model.attention_dropout = config.model.activation_dropout = 0.1;
  config.data.micro_batch_tokens = 16;
  config.communication.all_reduce = GradientPath::ring;  // for make_gradient_comm(): not NCCL
  const std::string device = GetParam();
  if (device == "emulated") {  // slow
    config.training.stop_after = "1u";
    config.training.units = 4;
    config.data.tokens_per_update = 60;
    config.model.encoder_layers = config.model.decoder_layers = 1;
  }
  const std::vector<StepRecord> one = train(config, 1, {}, false, device);
  ASSERT_GE(one.size(), 1U);
  EXPECT_GT(one[0].gradient_norm, 0);
  expect_same_updates(train(config, 2, {}, false, device), one);
  if (device != "cpu") return;
  for (const int ranks : {2, 4, 8}) expect_same_updates(train(config, ranks, {}, true), one);
}
INSTANTIATE_TEST_SUITE_P(Devices, TrainerByUnits, testing::Values("cpu", "closed", "emulated"),
                         [](const auto& parameter) { return std::string(parameter.param); });

/// Trains on a backend whose memory the host cannot access, with gradients reduced through host memory or by NCCL
/// during backward. Covers validation, checkpoints, resuming, one rank, and two ranks that could share host memory.
class TrainerOnDevice : public testing::TestWithParam<GradientPath> {};

TEST_P(TrainerOnDevice, GivesTheSameBitsAsHostMemory) {
  FakeNccl::reset();
  TrainConfig config = small_config();
  config.training.digest_every = "1u";
  for (const int ranks : {1, 2}) {
    config.communication.all_reduce = GradientPath::automatic;
    config.training.stop_after = "6u";
    const std::vector<StepRecord> expected = train(config, ranks);
    const TemporaryFolder folder;
    config.training.stop_after = "4u";
    config.communication.all_reduce = GetParam();
    std::vector<StepRecord> found = train(config, ranks, folder.path(), true, "closed");
    config.training.stop_after = "6u";
    for (StepRecord& record : train(config, ranks, folder.path(), true, "closed")) found.push_back(std::move(record));
    ASSERT_EQ(found.size(), expected.size()) << ranks;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i].loss, expected[i].loss) << ranks << " ranks, update " << i + 1;
      EXPECT_EQ(found[i].weights_digest, expected[i].weights_digest) << ranks << " ranks, update " << i + 1;
    }
  }
  const bool by_nccl = GetParam() == GradientPath::nccl;
  EXPECT_EQ(FakeNccl::calls(1).size() > 6 * 3, by_nccl) << "several buckets in each update";
}

INSTANTIATE_TEST_SUITE_P(Transports, TrainerOnDevice, testing::Values(GradientPath::ring, GradientPath::nccl));

/// For a table shared by embeddings and output projection, GPUs reduce the projection's gradient first and the rows in
/// use last. All ranks get equal weights, which differ from those of a single all-reduce by rounding only.
TEST(Trainer, GpusReduceTheSharedTableFirstAndItsUsedRowsLast) {
  constexpr int vocabulary = 400;  // the sentences use `pieces` of it
  constexpr std::size_t table = vocabulary * 32, max_rows = pieces * 32;
  TrainConfig config = small_config();
  config.training.stop_after = "6u";
  for (const auto& [ranks, tokens, micro_batch] : {std::tuple{2, 200, 0}, {2, 200, 40}, {3, 15, 0}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} tokens, micro-batches of {}", ranks, tokens, micro_batch));
    config.data.tokens_per_update = tokens;  // 15: less than one sentence per rank
    config.data.micro_batch_tokens = micro_batch;
    config.communication.all_reduce = GradientPath::ring;
    const std::vector<Collector> whole = train_all(config, ranks, {}, false, "closed", vocabulary);
    config.communication.all_reduce = GradientPath::nccl;
    FakeNccl::reset();
    const std::vector<Collector> apart = train_all(config, ranks, {}, false, "closed", vocabulary);
    const std::vector<FakeNccl::Call> calls = FakeNccl::calls(1);
    const std::vector<Collector> again = train_all(config, ranks, {}, false, "closed", vocabulary);
    ASSERT_EQ(apart[0].steps.size(), 6U);
    for (std::size_t i = 0; i < apart[0].steps.size(); ++i) {
      const StepRecord& step = apart[0].steps[i];
      EXPECT_NEAR(step.loss, whole[0].steps[i].loss, 1e-4 * step.loss) << i;
      EXPECT_NEAR(step.gradient_norm, whole[0].steps[i].gradient_norm, 1e-3 * step.gradient_norm) << i;
      EXPECT_EQ(step.weights_digest, again[0].steps[i].weights_digest) << i;
      EXPECT_EQ(step.weights_digest, apart[1].steps[i].weights_digest) << i;
    }
    const std::size_t of_update = (calls.size() - 1) / 6;  // behind the trial
    ASSERT_EQ(calls.size(), 1 + 6 * of_update);
    for (std::size_t i = 1; i < calls.size(); i += of_update) {
      EXPECT_EQ(calls[i].count, table);
      EXPECT_LE(calls[i + of_update - 1].count, max_rows);
    }
  }
}

/// A frozen table has no gradient. A table with nearly all ids in use is reduced as a whole.
TEST(Trainer, GpusReduceAWholeTableIfItsRowsSaveNothing) {
  TrainConfig config = small_config();
  config.training.stop_after = "2u";
  config.communication.all_reduce = GradientPath::nccl;
  const auto tables_reduced = [&](const std::string& freeze, int vocabulary) {
    FakeNccl::reset();
    config.training.freeze = freeze;
    train_all(config, 2, {}, false, "closed", vocabulary);
    const std::vector<FakeNccl::Call> calls = FakeNccl::calls(1);
    EXPECT_EQ(calls.back().count, static_cast<std::size_t>(vocabulary) * 32);
    EXPECT_EQ((calls.size() - 1) % 2, 0U);
  };
  tables_reduced("embedding", 400);
  tables_reduced("", pieces + 4);
}

TEST(Trainer, MicroBatchesDoNotChangeTheUpdate) {
  TrainConfig config = small_config();
  config.training.stop_after = "20u";
  const std::vector<StepRecord> whole = train(config, 1);
  config.data.micro_batch_tokens = 64;
  const std::vector<StepRecord> parts = train(config, 2);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(parts[i].loss, whole[i].loss, 2e-4 * whole[i].loss);
}

TEST(Trainer, ResumedRunIsBitEqualToTheUninterruptedOne) {
  for (const int ranks : {1, 2}) {
    TrainConfig config = small_config();
    config.training.stop_after = "40u";
    const std::vector<StepRecord> whole = train(config, ranks);

    const TemporaryFolder folder;
    config.training.stop_after = "13u";  // in the middle of an epoch
    train(config, ranks, folder.path());
    config.training.stop_after = "40u";
    const std::vector<StepRecord> rest = train(config, ranks, folder.path());
    ASSERT_EQ(rest.size(), 27U);
    EXPECT_EQ(rest.front().update, 14);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].weights_digest, whole[i + 13].weights_digest) << "update " << rest[i].update;
      EXPECT_EQ(rest[i].loss, whole[i + 13].loss);
    }
  }
}

/// The model is wide enough to give every rank a shard.
TEST(Trainer, RanksWithASharedCopyGiveTheSameBits) {
  TrainConfig config = small_config();
  config.training.stop_after = "12u";
  config.model.width = 64;
  config.model.inner = 256;
  config.optimizer.adam.clip_norm = 0.5;
  for (const int ranks : {2, 4}) {
    for (const DType precision : {DType::f32, DType::bf16}) {
      config.training.precision = precision;
      const std::vector<StepRecord> copies = train(config, ranks);
      const std::vector<StepRecord> shared = train(config, ranks, {}, true);
      ASSERT_EQ(shared.size(), 12U);
      for (std::size_t i = 0; i < shared.size(); ++i) {
        EXPECT_EQ(shared[i].weights_digest, copies[i].weights_digest) << ranks << " ranks, update " << i + 1;
        EXPECT_EQ(shared[i].gradient_norm, copies[i].gradient_norm);
      }
      EXPECT_GT(copies[0].gradient_norm, 0.5);
    }
  }
}

TEST(Trainer, SharedAndSeparateCopiesResumeFromEachOther) {
  TrainConfig config = small_config();
  config.model.width = 64;
  config.training.stop_after = "20u";
  const std::vector<StepRecord> whole = train(config, 2);
  for (const bool shared_first : {true, false}) {
    const TemporaryFolder folder;
    config.training.stop_after = "9u";
    train(config, 2, folder.path(), shared_first);
    config.training.stop_after = "20u";
    const std::vector<StepRecord> rest = train(config, 2, folder.path(), !shared_first);
    ASSERT_EQ(rest.size(), 11U);
    for (std::size_t i = 0; i < rest.size(); ++i) EXPECT_EQ(rest[i].weights_digest, whole[i + 9].weights_digest);
  }
}

TEST(Trainer, HostsWithACopyEachGiveTheSameBitsAndResume) {
  TrainConfig config = small_config();
  config.model.width = 64;
  config.model.inner = 256;
  for (const DType precision : {DType::f32, DType::bf16}) {
    config.training.precision = precision;
    config.training.stop_after = "12u";
    const std::vector<StepRecord> copies = train(config, 4);
    const TemporaryFolder folder;
    for (const auto& [first, end, stop_after] : {std::tuple{0U, 7U, "7u"}, std::tuple{7U, 12U, "12u"}}) {
      config.training.stop_after = stop_after;
      for (const Collector& rank : train_all(config, 4, folder.path(), true, "cpu", pieces, 2)) {
        ASSERT_EQ(rank.steps.size(), end - first);
        for (std::size_t i = first; i < end; ++i) {
          EXPECT_EQ(rank.steps[i - first].weights_digest, copies[i].weights_digest) << "update " << i + 1;
          EXPECT_EQ(rank.steps[i - first].gradient_norm, copies[i].gradient_norm);
        }
      }
    }
  }
}

TEST(Trainer, PartsOfAStepAddUp) {
  TrainConfig config = small_config();
  config.training.stop_after = "10u";
  for (const StepRecord& step : train(config, 2)) {
    const double parts = step.data_ms + step.forward_ms + step.backward_ms + step.exposed_communication_ms +
                         step.optimizer_ms + step.other_ms;
    EXPECT_NEAR(parts, step.step_ms, 1e-6);
    EXPECT_GE(step.other_ms, -0.001);
    EXPECT_GT(step.forward_ms, 0);
    EXPECT_GT(step.backward_ms, 0);
    EXPECT_GT(step.flops, 0);
    EXPECT_EQ(step.weights_digest.size(), 64U);
  }
}

/// The sum of all purposes in a step record.
std::int64_t known_bytes(const StepRecord& step) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < memory_purposes; ++i) {
    total += step.memory_bytes.at(std::string(name_of(static_cast<MemoryPurpose>(i))));
  }
  return total;
}

TEST(Trainer, MemoryByPurposeAddsUpToTheProcess) {
  TrainConfig config = small_config();
  config.training.precision = DType::f32;
  config.training.stop_after = "5u";
  const std::int64_t parameters = count_parameters(config.model, pieces);
  for (const bool shares_memory : {false, true}) {
    for (const StepRecord& step : train(config, 2, {}, shares_memory)) {
      const auto& bytes = step.memory_bytes;
      EXPECT_GE(bytes.at("weights"), parameters * 4);
      EXPECT_GE(bytes.at("gradients"), parameters * 4);
      EXPECT_EQ(bytes.at("moments"), 2 * bytes.at("weights"));
      EXPECT_GE(bytes.at("activations"), std::int64_t{16} << 20) << "an arena's first block";
      EXPECT_EQ(bytes.at("decoding"), 0);
      EXPECT_GT(bytes.at("unaccounted"), 0);
      EXPECT_EQ(known_bytes(step) + bytes.at("unaccounted"), bytes.at("process"));
      EXPECT_LE(bytes.at("process"), bytes.at("peak"));
    }
  }
}

TEST(Trainer, StopRequestEndsWithACheckpoint) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  const Corpus corpus = small_corpus();
  const auto communicator = make_single_communicator();
  Collector records;
  StopRequest stop;
  stop.request();
  train_rank(config, corpus, *communicator, folder.path(), records, stop);
  EXPECT_EQ(records.steps.size(), 1U);
  ASSERT_EQ(records.checkpoints.size(), 1U);
  EXPECT_EQ(records.checkpoints[0].update, 1);
}

TEST(Trainer, AFailedCheckpointEndsTheRunOnlyIfItIsTheLast) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  config.training.stop_after = "4u";
  config.checkpoint.every = "2u";
  const Corpus corpus = small_corpus();
  const auto communicator = make_single_communicator();
  Collector records;
  const auto backend = make_cpu_backend(1);
  const StopRequest stop;
  Checkpointer keeper(config, folder.path() / "checkpoints", "", *backend, *communicator, records);
  TextSource source(corpus, config.plan_options());
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = source,
                   .checkpoints = &keeper,
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = pieces});
  trainer.begin("r_00000000000000000000000000", 1);
  fs::remove(folder.path() / "checkpoints");
  folder.write("checkpoints", "no folder");
  const LogCapture log;
  std::string end;
  try {
    trainer.run();
  } catch (const Failure& failure) {
    end = failure.what();
  }
  EXPECT_THAT(end, ::testing::HasSubstr(
                       "checkpoint of update 4 was not written, and what was trained since update 0 is lost: "));
  EXPECT_THAT(end, ::testing::HasSubstr("Not a directory"));
  EXPECT_EQ(records.steps.size(), 4U);
  EXPECT_EQ(log.count("checkpoint of update 2 was not written, training goes on: "), 1) << log.text();
  EXPECT_EQ(log.count("Not a directory"), 1) << log.text();
}

TEST(Trainer, NonFiniteWeightsAreNotResumed) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  config.training.stop_after = "2u";
  train(config, 1, folder.path());
  poison_checkpoint(folder.path() / "update-00000002", "decoder.norm.gain", 0, NAN);
  const auto communicator = make_single_communicator();
  Collector records;
  config.training.stop_after = "4u";
  EXPECT_THAT([&] { train_rank(config, small_corpus(), *communicator, folder.path(), records); },
              ::testing::ThrowsMessage<Failure>(::testing::HasSubstr(
                  "update-00000002/weights.safetensors: weights are not finite: decoder.norm.gain[0] is nan")));
  EXPECT_TRUE(records.steps.empty());
}

TEST(Trainer, DamagedCheckpointsAreOnlyMovedAsideOnRequest) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  config.training.stop_after = "2u";
  train(config, 1, folder.path());
  fs::resize_file(folder.path() / "update-00000002" / "weights.safetensors", 1000);
  const auto communicator = make_single_communicator();
  Collector records;
  EXPECT_THAT([&] { train_rank(config, small_corpus(), *communicator, folder.path(), records); },
              ::testing::ThrowsMessage<Failure>(::testing::HasSubstr("none of 1 can be used")));
  EXPECT_EQ(fs::file_size(folder.path() / "update-00000002" / "weights.safetensors"), 1000U);

  const auto backend = make_cpu_backend(1);
  Checkpointer(config, folder.path(), "", *backend, *communicator, records).move_all_aside();
  train_rank(config, small_corpus(), *communicator, folder.path(), records);
  ASSERT_EQ(records.steps.size(), 2U);
  EXPECT_EQ(records.steps[0].update, 1);
  EXPECT_EQ(fs::file_size(folder.path() / "aside/update-00000002/weights.safetensors"), 1000U);
}

TEST(Trainer, AnotherCorpusIsRejectedOnResume) {
  const TemporaryFolder folder;
  TrainConfig config = small_config();
  config.training.stop_after = "2u";
  const auto communicator = make_single_communicator();
  Collector records;
  train_rank(config, small_corpus(), *communicator, folder.path(), records);
  const Corpus other = make_synthetic({.task = SyntheticTask::copy, .sentences = 500, .vocabulary_size = pieces});
  EXPECT_THROW(train_rank(config, other, *communicator, folder.path(), records), Failure);
}

}  // namespace
}  // namespace babelring
