#include "nmt/train/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

#include "nmt/train/checkpointing/training_state.h"
#include "tests/nmt/checkpoint/poison.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/train_ranks.h"
#include "tests/worker/log_capture.h"

namespace babelring {
namespace {

namespace fs = std::filesystem;

TEST(Trainer, ResumedRunIsBitEqualToTheUninterruptedOne) {
  for (const int ranks : {1, 2}) {
    TrainConfig config = small_config();
    config.training.stop_after = "40u";
    const std::vector<StepRecord> whole = train_steps(config, ranks);

    const TemporaryFolder folder;
    config.training.stop_after = "13u";  // in the middle of an epoch
    train_steps(config, ranks, folder.path());
    config.training.stop_after = "40u";
    const std::vector<StepRecord> rest = train_steps(config, ranks, folder.path());
    ASSERT_EQ(rest.size(), 27U);
    EXPECT_EQ(rest.front().update, 14);
    for (std::size_t i = 0; i < rest.size(); ++i) {
      EXPECT_EQ(rest[i].weights_digest, whole[i + 13].weights_digest) << "update " << rest[i].update;
      EXPECT_EQ(rest[i].loss, whole[i + 13].loss);
    }
  }
}

/// The model learns the given alignment beside the translation; a resumed run goes on with the same bits.
TEST(Trainer, GuidedAlignmentIsLearnt) {
  TrainConfig config = small_config();
  config.training.stop_after = "5u";
  EXPECT_TRUE(std::isnan(train_steps(config, 1).back().alignment_loss));
  config.training.stop_after = "250u";
  config.training.guided_alignment = 1;
  const std::vector<StepRecord> whole = train_steps(config, 1);
  EXPECT_LT(whole.back().alignment_loss, 0.5 * whole.front().alignment_loss);
  const TemporaryFolder folder;
  config.training.stop_after = "20u";
  train_steps(config, 1, folder.path());
  config.training.stop_after = "40u";
  expect_same_updates(train_steps(config, 1, folder.path()), {whole.begin() + 20, whole.begin() + 40});
}

/// Each changes training, learns, and resumes with the same bits, by itself and with the others.
TEST(Trainer, RegularisersLearnAndResume) {
  using Key = double TrainingConfig::*;
  const std::vector<Key> keys = {&TrainingConfig::r_drop, &TrainingConfig::layer_drop,
                                 &TrainingConfig::source_word_dropout, &TrainingConfig::target_word_dropout};
  std::vector<std::vector<Key>> cases = {keys};
  for (const Key key : keys) cases.push_back({key});
  TrainConfig plain = small_config();
  plain.training.stop_after = "40u";
  const StepRecord unregularised = train_steps(plain, 1).back();
  for (const std::vector<Key>& some : cases) {
    TrainConfig config = plain;
    for (const Key key : some) config.training.*key = key == &TrainingConfig::r_drop ? 1 : 0.2;
    const std::vector<StepRecord> whole = train_steps(config, 1);
    EXPECT_NE(whole.back().weights_digest, unregularised.weights_digest);
    EXPECT_LT(whole.back().nll, whole.front().nll - 0.05);
    EXPECT_EQ(std::isnan(whole.back().r_drop_loss), config.training.r_drop == 0);
    EXPECT_EQ(whole.back().update_target_tokens, unregularised.update_target_tokens);
    const TemporaryFolder folder;
    config.training.stop_after = "13u";
    train_steps(config, 1, folder.path());
    config.training.stop_after = "40u";
    expect_same_updates(train_steps(config, 1, folder.path()), {whole.begin() + 13, whole.end()});
  }
}

/// The elements of a checkpoint's weights, or of the tensors among its moments whose names begin with `prefix`.
std::vector<float> elements_of(const fs::path& folder, const std::string& prefix = "") {
  const Checkpoint checkpoint = load_checkpoint(folder).value();
  const TensorFiles weights = checkpoint.weights(), moments = checkpoint.optimizer();
  std::vector<float> elements;
  for (const std::string& name : weights.names()) {
    const ConstTensor tensor = prefix.empty() ? weights.tensor(name) : moments.tensor(prefix + name);
    elements.insert(elements.end(), tensor.as<float>(), tensor.as<float>() + tensor.shape.elements());
  }
  return elements;
}

fs::path folder_of(const TemporaryFolder& run, int update) {
  return run / checkpoint_name(update);
}

/// decay_t is (1 + t) / (10 + t) in the first updates and 0.3 from the fourth on.
TEST(Trainer, CheckpointsHaveTheMovingAverageBesideTheWeights) {
  TrainConfig config = small_config();
  config.training.stop_after = "6u";
  config.checkpoint.every = "1u";
  config.checkpoint.keep_last = 10;
  const TemporaryFolder plain, averaged;
  const std::vector<StepRecord> expected = train_steps(config, 1, plain.path());
  config.training.ema = 0.3;
  expect_same_updates(train_steps(config, 1, averaged.path()), expected);
  for (int update = 2; update <= 6; ++update) {
    const std::vector<float> weights = elements_of(folder_of(plain, update)),
                             before = elements_of(folder_of(averaged, update - 1)),
                             now = elements_of(folder_of(averaged, update));
    EXPECT_TRUE(elements_of(folder_of(averaged, update), raw_weight_prefix) == weights) << update;
    const double decay = std::min(0.3, (1.0 + update) / (10.0 + update));
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double old = static_cast<double>(before[i]);
      ASSERT_NEAR(static_cast<double>(now[i]), old + (1 - decay) * (static_cast<double>(weights[i]) - old), 1e-6);
    }
  }
}

/// A run goes on with its weights, not with their average, whether it keeps one or not. An average that begins late
/// begins with the weights.
TEST(Trainer, AnAverageResumesEndsAndBeginsAnew) {
  for (const int ranks : {1, 2}) {
    TrainConfig config = small_config();
    config.training.stop_after = "8u";
    const std::vector<StepRecord> expected = train_steps(config, ranks);
    config.training.ema = 0.9;
    const TemporaryFolder unbroken, folder;
    train_steps(config, ranks, unbroken.path());
    std::vector<StepRecord> found;
    for (const auto& [end, ema] : {std::pair{"3u", 0.9}, {"8u", 0.9}}) {
      config.training.stop_after = end;
      config.training.ema = ema;
      for (StepRecord& step : train_steps(config, ranks, folder.path(), true)) found.push_back(std::move(step));
    }
    expect_same_updates(found, expected);
    for (const char* prefix : {"", raw_weight_prefix}) {
      EXPECT_TRUE(elements_of(folder_of(folder, 8), prefix) == elements_of(folder_of(unbroken, 8), prefix));
    }
    const TemporaryFolder changing;
    found.clear();
    for (const auto& [end, ema] : {std::pair{"2u", 0.9}, {"4u", 0.0}, {"8u", 0.9}}) {
      config.training.stop_after = end;
      config.training.ema = ema;
      for (StepRecord& step : train_steps(config, ranks, changing.path())) found.push_back(std::move(step));
    }
    expect_same_updates(found, expected);
    EXPECT_TRUE(elements_of(folder_of(changing, 8)) != elements_of(folder_of(unbroken, 8)));
  }
}

/// In percent, the schedule ends with the training, and a resumed run goes on with it.
TEST(Trainer, AScheduleInPercentEndsWithTraining) {
  TrainConfig config = small_config();
  config.optimizer.schedule = {.schedule = Decay::linear, .learning_rate = 0.004, .warm_up = "25%", .decay = "100%"};
  config.training.stop_after = "40u";
  const std::vector<StepRecord> whole = train_steps(config, 2);
  EXPECT_DOUBLE_EQ(whole[4].learning_rate, 0.002);
  EXPECT_DOUBLE_EQ(whole[9].learning_rate, 0.004);
  EXPECT_DOUBLE_EQ(whole[24].learning_rate, 0.002);
  EXPECT_DOUBLE_EQ(whole[39].learning_rate, 0);
  const TemporaryFolder folder;
  const Corpus corpus = small_corpus();
  const auto communicator = make_single_communicator();
  Collector first, rest;
  StopRequest stop;
  stop.request();
  train_rank(config, corpus, *communicator, folder.path(), first, stop);
  train_rank(config, corpus, *communicator, folder.path(), rest);
  ASSERT_EQ(rest.steps.size(), 39U);
  for (std::size_t i = 0; i < 39; ++i) EXPECT_EQ(rest.steps[i].learning_rate, whole[i + 1].learning_rate) << i;
}

TEST(Trainer, PartsOfAStepAddUp) {
  TrainConfig config = small_config();
  config.training.stop_after = "10u";
  for (const StepRecord& step : train_steps(config, 2)) {
    EXPECT_NEAR(step.times.sum_of_parts(), step.times.step, 1e-6);
    EXPECT_GE(step.times.other, -0.001);
    EXPECT_GT(step.times.forward, 0);
    EXPECT_GT(step.times.backward, 0);
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
    for (const StepRecord& step : train_steps(config, 2, {}, shares_memory)) {
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
  train_steps(config, 1, folder.path());
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
  train_steps(config, 1, folder.path());
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
