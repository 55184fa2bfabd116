#include <gtest/gtest.h>

#include <cmath>

#include "nmt/data/gssm/gssm_source.h"
#include "nmt/data/gssm/likelihood.h"
#include "nmt/decode/sampler.h"
#include "nmt/train/evaluation/sequence_validator.h"
#include "nmt/train/setup/task_data.h"
#include "nmt/train/trainer.h"
#include "tests/nmt/train/gssm_training.h"

/// A language model learns its source: it comes near the exact entropy, never below it, and says what the source says.
namespace babelring {
namespace {

TrainConfig learning_config() {
  TrainConfig config = small_gssm_config();
  config.model.width = 64;
  config.model.inner = 128;
  config.data.sequence_length = 64;
  config.data.sequences_per_update = 16;
  config.optimizer.schedule = {.schedule = Decay::cosine, .learning_rate = 0.008, .warm_up = "50u", .decay = "700u"};
  config.training.stop_after = "700u";
  config.training.digest_every = "0u";
  config.validation.every = "100u";
  config.validation.sequences = 128;
  return config;
}

/// Mean of nll - entropy over the targets of held-out sequences, with its standard error between sequences.
GssmEntropy excess_of(const LanguageModel& model, const GssmHeldOut& held_out, Backend& backend) {
  ActivationArenas arenas(backend);
  std::vector<double> of_sequences;
  for (std::int64_t i = 0; i < held_out.sequences(); ++i) {
    const PackedBatch batch =
        pack_sequences({i, i + 1}, held_out.length(),
                       [&](std::int64_t sequence, std::span<std::int32_t> tokens) { held_out.read(sequence, tokens); });
    const std::vector<double> nll = token_losses(model, batch, backend, arenas).nll,
                              entropy = held_out.target_entropies(i);
    double sum = 0;
    for (std::size_t t = 0; t < nll.size(); ++t) sum += nll[t] - entropy[t];
    of_sequences.push_back(sum / static_cast<double>(nll.size()));
  }
  return summarise_entropy(of_sequences, held_out.length() - 1);
}

/// The share of each token among the targets of sequences, and the spread between sequences, as mean and standard
/// error.
std::vector<GssmEntropy> shares_of(const std::vector<std::vector<std::int32_t>>& sequences, std::int64_t vocabulary) {
  std::vector<std::vector<double>> shares(static_cast<std::size_t>(vocabulary));
  for (const auto& sequence : sequences) {
    for (std::size_t token = 0; token < shares.size(); ++token) {
      const auto count = std::count(sequence.begin() + 1, sequence.end(), static_cast<std::int32_t>(token));
      shares[token].push_back(static_cast<double>(count) / static_cast<double>(sequence.size() - 1));
    }
  }
  std::vector<GssmEntropy> summaries;
  for (const std::vector<double>& of_token : shares) summaries.push_back(summarise_entropy(of_token, 1));
  return summaries;
}

TEST(GssmLearning, ComesNearTheEntropyAndSamplesLikeTheSource) {
  const TrainConfig config = learning_config();
  const TaskData data = open_task_data(config);
  const auto backend = make_cpu_backend(2);
  const auto communicator = make_single_communicator();
  const StopRequest stop;
  Collector records;
  Trainer trainer({.config = config,
                   .backend = *backend,
                   .communicator = *communicator,
                   .source = *data.source,
                   .held_out = data.held_out.get(),
                   .records = records,
                   .stop = stop,
                   .model_vocabulary = data.model_vocabulary});
  trainer.begin("r_00000000000000000000000000", 1);
  trainer.run();
  const LanguageModel& model = require_language_model(trainer.model());

  // No model can beat its source: a lower loss than the entropy would be an error of one of them.
  const GssmHeldOut held_out(make_gssm_graph(config.gssm), "test", 128, 64, 1);
  const GssmEntropy excess = excess_of(model, held_out, *backend);
  EXPECT_LT(excess.nats, 0.03);
  ASSERT_EQ(records.evaluations.size(), 7U);
  EXPECT_NEAR(records.evaluations.back().nll - records.evaluations.back().entropy, excess.nats, 1e-4);
  for (const EvalRecord& evaluation : records.evaluations) {
    EXPECT_GT(evaluation.nll - evaluation.entropy, -3 * excess.standard_error) << "update " << evaluation.update;
  }

  const GssmHeldOut source(make_gssm_graph(config.gssm), "test", 400, 64, 77);
  std::vector<std::vector<std::int32_t>> drawn(400, std::vector<std::int32_t>(64));
  for (std::size_t i = 0; i < drawn.size(); ++i) source.read(static_cast<std::int64_t>(i), drawn[i]);
  const auto of_source = shares_of(drawn, 8);
  const auto of_model = shares_of(sample_sequences(model, *backend, 100, {.length = 64, .seed = 5}), 8);
  for (std::size_t token = 0; token < 8; ++token) {
    const double error = std::hypot(of_source[token].standard_error, of_model[token].standard_error);
    EXPECT_NEAR(of_model[token].nats, of_source[token].nats, 3 * error) << "token " << token;
  }
}

}  // namespace
}  // namespace babelring
