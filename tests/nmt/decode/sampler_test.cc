#include "nmt/decode/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/failure.h"
#include "nmt/layers/context.h"

namespace babelring {
namespace {

using testing::ThrowsMessage;

constexpr std::int64_t sampled_vocabulary = 8;

/// A small language model with the weights of a seed.
std::unique_ptr<LanguageModel> small_model(Backend& backend) {
  const ModelConfig config{.encoder_layers = 0, .decoder_layers = 2, .width = 16, .heads = 2, .inner = 32};
  auto model =
      std::make_unique<LanguageModel>(config, sampled_vocabulary, 0.0f, parameter_memory_of(backend), DType::f32);
  model->initialize(backend, 3);
  return model;
}

std::vector<std::vector<std::int32_t>> sample(std::int64_t count, const SampleOptions& options) {
  const auto backend = make_cpu_backend(1);
  return sample_sequences(*small_model(*backend), *backend, count, options);
}

/// A naive decoder: the logits of the last token, from a pass over the whole
/// sequence.
std::vector<float> logits_after(const std::vector<std::int32_t>& sequence) {
  const auto backend = make_cpu_backend(1);
  const auto model = small_model(*backend);
  ActivationArenas arenas(*backend);
  Context context = arenas.begin(DType::f32);
  const PackedSequences packed{.ids = sequence, .offsets = {0, static_cast<std::int32_t>(sequence.size())}};
  const Tensor logits = model->logits(context, upload_sequences(*backend, context.saved, packed, 0));
  std::vector<float> values(static_cast<std::size_t>(logits.shape.elements()));
  backend->download(logits, values.data());
  return {values.end() - sampled_vocabulary, values.end()};
}

TEST(Sampler, DrawsTokensWithTheirProbabilities) {
  const std::vector<float> logits = {0, 1, 2, 1};
  const auto shares = [&](const SampleOptions& options) {
    std::vector<double> found(4);
    Random random(7);
    constexpr int draws = 40000;
    for (int i = 0; i < draws; ++i) found[static_cast<std::size_t>(draw_token(logits, options, random))] += 1.0 / draws;
    return found;
  };
  const auto near = [](std::vector<double> expected) {
    std::vector<testing::Matcher<double>> each;
    for (const double share : expected) each.push_back(testing::DoubleNear(share, 0.01));
    return testing::ElementsAreArray(each);
  };
  const double sum = 1 + 2 * std::exp(1) + std::exp(2);
  EXPECT_THAT(shares({}), near({1 / sum, std::exp(1) / sum, std::exp(2) / sum, std::exp(1) / sum}));
  const double colder = std::exp(4) + std::exp(2);
  EXPECT_THAT(shares({.temperature = 0.5, .top_k = 2}), near({0, std::exp(2) / colder, std::exp(4) / colder, 0}));
  EXPECT_THAT(shares({.temperature = 0}), testing::ElementsAre(0, 0, testing::DoubleNear(1, 1e-9), 0));
}

TEST(Sampler, AgreesWithANaiveDecoder) {
  const SampleOptions options{.length = 9, .prompt = {0, 5}, .seed = 11};
  for (std::int64_t i = 0; i < 3; ++i) {
    Random random(derive_seed(11, static_cast<std::uint64_t>(i)));
    std::vector<std::int32_t> expected = options.prompt;
    while (expected.size() < 9) expected.push_back(draw_token(logits_after(expected), options, random));
    EXPECT_EQ(sample(3, options)[static_cast<std::size_t>(i)], expected);
  }
}

TEST(Sampler, ASequenceDependsOnItsSeedAndNumberOnly) {
  const SampleOptions options{.length = 6, .seed = 2};
  const auto many = sample(70, options), few = sample(3, options);  // 70 are more than one batch
  EXPECT_EQ(few[2], many[2]);
  EXPECT_NE(many[0], many[1]);
  EXPECT_NE(sample(1, {.length = 6, .seed = 3})[0], many[0]);
}

TEST(Sampler, RefusesWrongPromptsAndLengths) {
  EXPECT_THAT([] { sample(1, {.prompt = {}}); },
              ThrowsMessage<UsageFailure>("sample: the prompt is empty, expected at least one token"));
  EXPECT_THAT([] { sample(1, {.prompt = {0, 8}}); },
              ThrowsMessage<UsageFailure>("sample: token 8 of the prompt, expected 0 to 7"));
  EXPECT_THAT([] { sample(1, {.length = 2, .prompt = {0, 1}}); },
              ThrowsMessage<UsageFailure>("sample: a length of 2 tokens, expected more "
                                          "than those of the prompt, 2"));
}

}  // namespace
}  // namespace babelring
