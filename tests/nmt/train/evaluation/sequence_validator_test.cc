#include "nmt/train/evaluation/sequence_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <thread>

#include "base/failure.h"
#include "nmt/data/sequence_source.h"
#include "nmt/model/transformer.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/comm/thread_communicator.h"
#include "tests/nmt/data/temporary_folder.h"
#include "tests/nmt/train/gssm_training.h"
#include "tests/reference/closed_backend.h"

namespace babelring {
namespace {

EvalRecord validate(const TrainConfig& config, Communicator& communicator) {
  const auto backend = make_closed_backend();  // validation must not access tensor memory from the host
  ActivationArenas arenas(*backend);
  const auto model = make_model(config.model, 8, 0, parameter_memory_of(*backend), DType::f32);
  model->initialize(*backend, 5);
  const auto held_out = open_held_out(config, "test");
  SequenceValidator validator(*held_out, {.backend = *backend, .communicator = communicator, .arenas = arenas},
                              rank_part(config, communicator, 0), 2);
  validator.run(*model, false);
  return validator.run(*model, false);
}

TEST(SequenceValidator, AnyNumberOfRanksReportsTheSameFigures) {
  const TrainConfig config = small_gssm_config();
  const EvalRecord alone = validate(config, *make_single_communicator());
  EXPECT_EQ(alone.set, "test");
  EXPECT_GT(alone.nll, alone.entropy) << "untrained";
  EXPECT_EQ(alone.loss, alone.nll);
  EXPECT_GT(alone.entropy, 0.1);
  EXPECT_LT(alone.entropy, std::log(8));
  EXPECT_GT(alone.accuracy, 0);
  EXPECT_TRUE(std::isnan(alone.sacrebleu) && std::isnan(alone.teacher_forced_bleu));
  ThreadGroup group(3);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      const EvalRecord shared = validate(config, *group.rank(rank));
      EXPECT_NEAR(shared.nll, alone.nll, 1e-6);
      EXPECT_NEAR(shared.entropy, alone.entropy, 1e-9);
      EXPECT_EQ(shared.accuracy, alone.accuracy);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST(SequenceValidator, UnitsGiveTheSameBitsForEveryNumberOfRanks) {
  TrainConfig config = small_gssm_config();
  config.training.reproducible = Reproducible::ranks;
  const EvalRecord alone = validate(config, *make_single_communicator());
  ThreadGroup group(4);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.emplace_back([&, rank] {
      const EvalRecord shared = validate(config, *group.rank(rank));
      EXPECT_EQ(shared.loss, alone.loss);
      EXPECT_EQ(shared.accuracy, alone.accuracy);
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

/// Validations score the weights that checkpoints have, and change no bit of training.
TEST(SequenceValidator, ScoresTheAverageOfTheWeights) {
  TrainConfig config = small_gssm_config();
  config.training.stop_after = "4u";
  config.validation.every = "2u";
  std::vector<std::string> digests;
  for (const double ema : {0.0, 0.9}) {
    config.training.ema = ema;
    const auto backend = make_closed_backend();
    const auto communicator = make_single_communicator();
    const TaskData data = open_task_data(config);
    const auto held_out = open_held_out(config, "test");
    const TemporaryFolder folder;
    Collector records;
    Checkpointer keeper(config, folder.path(), "", *backend, *communicator, records);
    const StopRequest stop;
    Trainer trainer({.config = config,
                     .backend = *backend,
                     .communicator = *communicator,
                     .source = *data.source,
                     .held_out = held_out.get(),
                     .checkpoints = &keeper,
                     .records = records,
                     .stop = stop,
                     .model_vocabulary = 8});
    trainer.begin("r_00000000000000000000000000", 1);
    trainer.run();
    digests.push_back(records.steps.back().weights_digest);
    const auto model = make_model(config.model, 8, 0.1f, parameter_memory_of(*backend), DType::f32);
    read_weights(load_checkpoint(folder / checkpoint_name(4)).value().weights(), *model, *backend);
    ActivationArenas arenas(*backend);
    SequenceValidator validator(*held_out, {.backend = *backend, .communicator = *communicator, .arenas = arenas},
                                rank_part(config, *communicator, 0), 1);
    EXPECT_EQ(records.evaluations.size(), 2U);
    EXPECT_EQ(records.evaluations.back().nll, validator.run(*model, false).nll) << ema;
  }
  EXPECT_EQ(digests[0], digests[1]);
}

TEST(TokenLosses, AddUpToTheLossOfTheBatch) {
  const auto backend = make_cpu_backend(1);
  ActivationArenas arenas(*backend);
  const double smoothing = 0.1;
  const auto model = make_model(small_gssm_config().model, 8, 0.1f, parameter_memory_of(*backend), DType::f32);
  model->initialize(*backend, 5);
  const PackedBatch batch = pack_sequences({0, 3}, 9, [](std::int64_t sequence, std::span<std::int32_t> tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<std::int32_t>((3 * static_cast<std::size_t>(sequence) + i * i) % 8);
    }
  });
  const TokenLosses losses = token_losses(require_language_model(*model), batch, *backend, arenas);
  Context context = arenas.begin(DType::f32);
  const LossSums sums = model->evaluate(context, DeviceBatch(*backend, context.saved, batch));
  ASSERT_EQ(losses.nll.size(), 24U);
  const double nll = std::accumulate(losses.nll.begin(), losses.nll.end(), 0.0);
  const double spread = std::accumulate(losses.spread.begin(), losses.spread.end(), 0.0);
  EXPECT_NEAR(nll, sums.nll, 1e-4);
  EXPECT_NEAR((1 - smoothing) * nll + smoothing * spread, sums.loss, 1e-3);
  EXPECT_EQ(static_cast<double>(losses.correct), sums.correct);
}

TEST(TokenLosses, NeedALanguageModel) {
  const auto backend = make_cpu_backend(1);
  const Transformer translator(small_config().model, 8, 0, *backend, DType::f32);
  EXPECT_THAT([&] { require_language_model(translator); },
              testing::ThrowsMessage<UsageFailure>("predicting sequences needs a language model, found a Transformer"));
}

}  // namespace

}  // namespace babelring
