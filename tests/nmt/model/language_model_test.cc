#include "nmt/model/language_model.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

ModelConfig causal_config(NormPosition norm) {
  ModelConfig config = small_config(norm, TiedEmbeddings::all, 0);
  config.encoder_layers = 0;
  config.decoder_layers = 3;
  return config;
}

const LanguageModel& language_model(ModelRun& run) {
  return dynamic_cast<const LanguageModel&>(run.model());
}

PackedSequences sequences_of(const std::vector<std::vector<std::int32_t>>& ids) {
  PackedSequences packed;
  for (const std::vector<std::int32_t>& each : ids) {
    packed.ids.insert(packed.ids.end(), each.begin(), each.end());
    packed.offsets.push_back(static_cast<std::int32_t>(packed.ids.size()));
  }
  return packed;
}

/// Logits [tokens, vocabulary] of whole sequences.
std::vector<float> logits_of(ModelRun& run, const PackedSequences& sequences) {
  Context pass = run.context(false);
  return run.download(language_model(run).logits(pass, upload_sequences(run.backend(), pass.saved, sequences, 0)));
}

/// Logits of the same sequences of one length, computed a position at a time from cached keys and values.
std::vector<float> logits_step_by_step(ModelRun& run, const std::vector<std::vector<std::int32_t>>& sequences) {
  const ModelConfig& config = language_model(run).config();
  const auto rows = std::ssize(sequences), length = std::ssize(sequences[0]);
  std::vector<float> found(static_cast<std::size_t>(rows * length * test_vocabulary));
  Arena kept([&](std::size_t bytes) { return run.backend().allocate(bytes); });
  std::vector<Tensor> caches;
  for (int layer = 0; layer < config.decoder_layers; ++layer) {
    caches.push_back(kept.make(Shape{rows, length * 2 * config.width}, DType::f32));
  }
  for (std::int64_t position = 0; position < length; ++position) {
    Context pass = run.context(false);
    std::vector<std::int32_t> ids, cached;
    for (std::int64_t row = 0; row < rows; ++row) {
      ids.push_back(sequences[static_cast<std::size_t>(row)][static_cast<std::size_t>(position)]);
      for (std::int64_t j = 0; j <= position; ++j) cached.push_back(static_cast<std::int32_t>(row * length + j));
    }
    const std::vector<std::int32_t> positions(ids.size(), static_cast<std::int32_t>(position));
    const std::vector<std::int32_t> counts(ids.size(), static_cast<std::int32_t>(position + 1));
    std::vector<SelfAttention::StepInput> inputs;
    for (const Tensor& cache : caches) {
      inputs.push_back({.cache = cache,
                        .position = position,
                        .rows = ConstTensor(cached.data(), Shape{rows, position + 1}, DType::i32),
                        .count = ConstTensor(counts.data(), Shape{rows}, DType::i32)});
    }
    const Sequences tokens{.ids = upload_ids(run.backend(), pass.saved, ids),
                           .positions = upload_ids(run.backend(), pass.saved, positions)};
    const std::vector<float> step = run.download(language_model(run).step(pass, tokens, inputs));
    for (std::int64_t row = 0; row < rows; ++row) {
      std::copy_n(step.begin() + row * test_vocabulary, test_vocabulary,
                  found.begin() + (row * length + position) * test_vocabulary);
    }
  }
  return found;
}

const std::map<std::string, ModelConfig> tested_configs = {
    {"pre", causal_config(NormPosition::pre)},
    {"post", causal_config(NormPosition::post)},
    {"modern", with_modern_layers(causal_config(NormPosition::pre))}};

class LanguageModelCase : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  ModelRun run_{std::get<0>(GetParam()), tested_configs.at(std::get<1>(GetParam())), test_vocabulary};
};

INSTANTIATE_TEST_SUITE_P(All, LanguageModelCase,
                         testing::Combine(testing::ValuesIn(available_backends()),
                                          testing::Values("pre", "post", "modern")),
                         [](const auto& parameter) {
                           return std::get<0>(parameter.param) + "_" + std::get<1>(parameter.param);
                         });

TEST_P(LanguageModelCase, ALaterTokenChangesNoEarlierLogit) {
  constexpr std::size_t changed = 7;  // of the second sequence, which begins at token 4
  PackedSequences sequences = sequences_of({{1, 5, 9, 4}, {3, 3, 8, 2, 10, 6}});
  const std::vector<float> before = logits_of(run_, sequences);
  sequences.ids[changed] = 0;
  const std::vector<float> after = logits_of(run_, sequences);
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::size_t token = i / test_vocabulary;
    EXPECT_EQ(after[i] == before[i], token < changed) << "token " << token;
  }
}

TEST_P(LanguageModelCase, StepsGiveTheLogitsOfTheWholeSequence) {
  const std::vector<std::vector<std::int32_t>> sequences = {{1, 5, 9, 4, 7}, {3, 3, 8, 2, 10}, {6, 0, 1, 1, 2}};
  const std::vector<float> whole = logits_of(run_, sequences_of(sequences));
  EXPECT_LT(relative_distance(logits_step_by_step(run_, sequences), whole), 1e-5);
}

TEST(LanguageModel, HasTheParametersOfADecoderWithoutEncoder) {
  // A layer: four projections and two feed-forward matrices, biases of the latter, two norms.
  constexpr std::int64_t width = 288, inner = 1152, layers = 12, tokens = 64;
  const ModelConfig config{.encoder_layers = 0, .decoder_layers = layers, .width = width, .heads = 12, .inner = inner};
  constexpr std::int64_t layer = 4 * width * width + 2 * width * inner + inner + width + 4 * width;
  EXPECT_EQ(count_parameters(config, tokens), tokens * width + layers * layer + 2 * width);
}

TEST(LanguageModel, LearnsASequenceThatRepeats) {
  ModelRun run("cpu", causal_config(NormPosition::pre), test_vocabulary);
  PackedBatch batch;
  batch.target_in = sequences_of({{0, 4, 8, 0, 4, 8, 0, 4}, {4, 8, 0, 4, 8}});
  batch.target_out = {4, 8, 0, 4, 8, 0, 4, 8, 8, 0, 4, 8, 0};
  batch.source.offsets = {0, 0, 0};
  for (int step = 0; step < 60; ++step) {
    run.zero_gradients();
    run.accumulate(batch, 1 / static_cast<float>(batch.target_out.size()));
    std::vector<float> weights = run.download(run.parameters().masters());
    const std::vector<float> gradients = run.gradients();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.2f * gradients[i];
    run.backend().upload(weights.data(), run.parameters().masters());
  }
  EXPECT_EQ(run.evaluate(batch).correct, static_cast<double>(batch.target_out.size()));
}

}  // namespace
}  // namespace babelring
