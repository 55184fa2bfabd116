#include "nmt/train/setup/task_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "base/files.h"
#include "nmt/data/gssm/finite_data.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/gssm_training.h"

namespace babelring {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

/// Trains one rank until `stop_after`, with checkpoints in `folder` unless it is empty.
Collector train_task(TrainConfig config, const char* stop_after, Communicator& communicator,
                     const std::filesystem::path& folder = {}) {
  config.training.stop_after = stop_after;
  const TaskData data = open_task_data(config);
  const auto backend = make_cpu_backend(1);
  const StopRequest stop;
  Collector records;
  std::optional<Checkpointer> checkpoints;
  if (!folder.empty()) checkpoints.emplace(config, folder, "", *backend, communicator, records);
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = communicator,
                   .source = *data.source,
                   .held_out = data.held_out.get(),
                   .checkpoints = checkpoints ? &*checkpoints : nullptr,
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = data.model_vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
  return records;
}

/// A folder of 30 sequences for training and 8 for validation, of the generator of `config`.
void write_folder(const TrainConfig& config, const std::filesystem::path& output) {
  write_gssm_data({.config = {.gssm = config.gssm, .sequence_length = config.data.sequence_length, .seed = 9},
                   .output = output,
                   .train = 30,
                   .test = 8,
                   .entropy_sequences = 8});
}

TEST(GssmTask, LearnsOnTheFlyWithTheSameSequencesOnAnyNumberOfRanks) {
  TrainConfig config = small_gssm_config();
  config.gssm.entropy_every = "20u";
  config.validation.every = "30u";
  const Collector one = train_task(config, "60u", *make_single_communicator());
  ASSERT_EQ(one.evaluations.size(), 2U);
  const EvalRecord& last = one.evaluations.back();
  EXPECT_LT(last.nll - last.entropy, 0.6 * (one.steps.front().nll - last.entropy));
  EXPECT_TRUE(std::isnan(one.steps[18].entropy));
  EXPECT_NEAR(one.steps[19].entropy, last.entropy, 0.5);
  ThreadGroup group(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const Collector two = train_task(config, "60u", *group.rank(rank));
      for (std::size_t i = 0; i < one.steps.size(); ++i) {
        EXPECT_NEAR(two.steps[i].loss, one.steps[i].loss, 1e-3 * one.steps[i].loss) << "update " << i + 1;
      }
      EXPECT_NEAR(two.steps[19].entropy, one.steps[19].entropy, 1e-9);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GssmTask, AResumedRunHasTheBitsOfAnUninterruptedOne) {
  const auto alone = make_single_communicator();
  const TemporaryFolder folder;
  TrainConfig on_the_fly = small_gssm_config(), of_files = small_gssm_config();
  write_folder(of_files, folder / "data");
  of_files.data.folder = folder / "data";
  for (const TrainConfig& config : {on_the_fly, of_files}) {
    const Collector whole = train_task(config, "11u", *alone);
    const auto checkpoints = folder / (config.on_the_fly() ? "generated" : "files");
    train_task(config, "5u", *alone, checkpoints);
    const Collector rest = train_task(config, "11u", *alone, checkpoints);
    ASSERT_EQ(rest.steps.size(), 6U);
    EXPECT_EQ(rest.steps.back().weights_digest, whole.steps.back().weights_digest);
    EXPECT_EQ(rest.steps.back().epoch, whole.steps.back().epoch);
    EXPECT_EQ(whole.steps.back().epoch > 0, !config.on_the_fly());
    const auto backend = make_cpu_backend(1);
    const LoadedModel loaded = load_model(checkpoints / "update-00000011", *backend, DType::f32);
    EXPECT_STREQ(loaded.model->kind(), "a language model");
    EXPECT_FALSE(loaded.vocabulary);
  }
}

TEST(GssmTask, RefusesToResumeWithAnotherGenerator) {
  const auto alone = make_single_communicator();
  const TemporaryFolder folder;
  TrainConfig config = small_gssm_config();
  train_task(config, "2u", *alone, folder.path());
  config.gssm.kernel_seed = 43;
  EXPECT_THAT([&] { train_task(config, "4u", *alone, folder.path()); },
              ThrowsMessage<UsageFailure>(HasSubstr("gssm: generator and length")));
}

TEST(GssmTask, TakesTheGeneratorOfItsFolder) {
  const TemporaryFolder folder;
  const TrainConfig written = small_gssm_config();
  write_folder(written, folder / "data");
  const std::string key = "data.folder=" + (folder / "data").string();
  const TrainConfig bare = with_generator_of_folder(read_config("task: gssm\n", "run.yaml", {key}));
  EXPECT_EQ(make_gssm_graph(bare.gssm).digest(), make_gssm_graph(written.gssm).digest());
  EXPECT_EQ(bare.data.sequence_length, 32);
  TrainConfig same = written;
  same.data.folder = folder / "data";
  EXPECT_EQ(open_task_data(with_generator_of_folder(same)).model_vocabulary, 8);
  TrainConfig other = same;
  other.gssm.alpha_x = 0.2;
  EXPECT_THAT([&] { with_generator_of_folder(other); },
              ThrowsMessage<UsageFailure>(HasSubstr("gssm.nodes: another generator than that of data.folder")));
  other = same;
  other.data.sequence_length = 33;
  EXPECT_THAT([&] { with_generator_of_folder(other); },
              ThrowsMessage<UsageFailure>(HasSubstr("data.sequence_length: 33, but the sequences of data.folder")));
}

TEST(GssmTask, RefusesAFolderWhoseGeneratorWasChanged) {
  const TemporaryFolder folder;
  write_folder(small_gssm_config(), folder / "data");
  TrainConfig config = small_gssm_config();
  config.data.folder = folder / "data";
  const std::filesystem::path generator = folder / "data" / "gssm.yaml";
  std::string text = read_file(generator);
  text.back() = ' ';
  write_file_atomically(generator, text);
  EXPECT_THAT([&] { with_generator_of_folder(config); }, ThrowsMessage<Failure>(HasSubstr("gssm.yaml: damaged")));
  std::filesystem::remove(generator);
  EXPECT_THAT([&] { check_task_data(config); }, ThrowsMessage<Failure>(HasSubstr("gssm.yaml: No such file")));
}

/// Trains on two hosts, a rank on each, until `stop_after`; rank 1 has its data in `other`. Returns what ended each
/// rank; empty: it finished.
std::vector<std::string> train_on_two_hosts(const TrainConfig& config, const std::filesystem::path& other,
                                            const char* stop_after) {
  ThreadGroup group(2, false, 2);
  std::vector<std::string> ends(2);
  const auto run = [&](int rank) {
    TrainConfig own = config;
    own.training.stop_after = stop_after;
    if (rank == 1) own.data.folder = other;
    const auto communicator = group.rank(rank);
    const TaskData data = open_task_data(own);
    const auto backend = make_cpu_backend(1);
    const StopRequest stop;
    Collector records;
    const auto check = make_data_check(own);
    Trainer trainer({.config = own,
                     .backend = *backend,
                     .communicator = *communicator,
                     .source = *data.source,
                     .held_out = data.held_out.get(),
                     .records = records,
                     .stop = stop,
                     .data_check = check.get(),
                     .model_vocabulary = data.model_vocabulary});
    trainer.begin("r_00000000000000000000000000", 1);
    try {
      trainer.run();
    } catch (const UsageFailure& failure) {
      ends[static_cast<std::size_t>(rank)] = failure.what();
    }
  };
  std::thread second(run, 1);
  run(0);
  second.join();
  return ends;
}

TEST(TaskData, ADamagedCopyOnOneHostEndsAllRanksAndIsNamed) {
  const TemporaryFolder folder;
  TrainConfig config = small_gssm_config();
  write_folder(config, folder / "data");
  config.data.folder = folder / "data";
  const std::filesystem::path copy = folder / "copy";
  std::filesystem::copy(folder / "data", copy);
  EXPECT_EQ(train_on_two_hosts(config, copy, "3u"), (std::vector<std::string>{"", ""}));
  const std::filesystem::path file = copy / load_manifest(copy).set("train").target_ids.name;
  std::string content = read_file(file);
  content.replace(16, 400, std::string(400, '\0'));  // ids 0, as of blocks that a crash has not written
  write_file_atomically(file, content);
  for (const char* stop_after : {"1u", "1000000u"}) {  // also a run that ends before the file has been read
    const std::vector<std::string> ends = train_on_two_hosts(config, copy, stop_after);
    EXPECT_THAT(ends[0], testing::StartsWith("rank 1 on there-1: " + file.string() + ": damaged, its SHA-256 is "));
    EXPECT_THAT(ends[0], HasSubstr("this attempt has used it from update 1 to "));
    EXPECT_EQ(ends[1], ends[0]);
  }
}

TEST(TaskData, TheCheckBeforeARunFindsMissingAndTruncatedFiles) {
  const TemporaryFolder folder;
  TrainConfig config = small_gssm_config();
  write_folder(config, folder / "data");
  config.data.folder = folder / "data";
  EXPECT_NO_THROW(check_task_data(config));
  const Manifest manifest = load_manifest(folder / "data");
  std::filesystem::resize_file(folder / "data" / manifest.set("train").target_ids.name, 100);
  EXPECT_THAT([&] { check_task_data(config); }, ThrowsMessage<UsageFailure>(HasSubstr("truncated or damaged, 100 ")));
}

}  // namespace
}  // namespace babelring
