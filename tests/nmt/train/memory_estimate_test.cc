#include "nmt/train/memory_estimate.h"

#include <gtest/gtest.h>

#include "nmt/layers/activation_arenas.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/dry_backend.h"
#include "nmt/train/memory_plan.h"
#include "tests/reference/test_backends.h"

namespace babelring {
namespace {

/// `sentences` pairs with the given lengths.
PackedBatch even_batch(int sentences, int source_tokens, int target_tokens) {
  PackedBatch batch;
  const auto add = [](PackedSequences& side, int tokens) {
    for (int i = 0; i < tokens; ++i) side.ids.push_back(3 + i % 7);
    side.offsets.push_back(static_cast<std::int32_t>(side.ids.size()));
  };
  for (int n = 0; n < sentences; ++n) {
    add(batch.source, source_tokens);
    add(batch.target_in, target_tokens);
    for (int i = 0; i < target_tokens; ++i) batch.target_out.push_back(4);
  }
  return batch;
}

void expect_close(std::int64_t estimated, std::size_t found, const char* what) {
  // The estimate ignores alignment to 256 bytes and sentence offsets.
  EXPECT_NEAR(static_cast<double>(estimated), static_cast<double>(found), 0.02 * static_cast<double>(found)) << what;
}

/// Compares the estimate with a real update.
void check_estimate(const ModelConfig& model, const std::string& precision, int source_tokens, int target_tokens,
                    std::int64_t vocabulary) {
  SCOPED_TRACE(model.norm + " " + model.tied_embeddings + " " + precision);
  constexpr int sentences = 32;
  TrainConfig config;
  config.model = model;
  config.training.precision = precision;
  config.data.tokens_per_update = std::int64_t{2} * sentences * target_tokens;  // two ranks
  const auto estimate = estimate_memory(config, vocabulary, 2, static_cast<double>(source_tokens) / target_tokens);
  EXPECT_EQ(estimate.target_tokens, sentences * target_tokens);
  EXPECT_EQ(estimate.source_tokens, sentences * source_tokens);

  const DType dtype = precision == "bf16" ? DType::bf16 : DType::f32;
  const auto backend = make_cpu_backend(1);
  Transformer transformer(model, vocabulary, 0.1f, *backend, dtype);
  transformer.initialize(*backend, 1);
  const ParameterStore& store = transformer.parameters();
  EXPECT_EQ(estimate.parameters, store.count());
  const auto size = [](const Tensor& tensor) {
    return tensor ? static_cast<std::size_t>(tensor.shape.elements()) * size_of(tensor.dtype) : 0;
  };
  expect_close(estimate.weights, size(store.masters()) + size(store.compute_copies()), "weights");
  expect_close(estimate.gradients, size(store.gradients()), "gradients");
  EXPECT_EQ(estimate.moments, 2 * estimate.gradients);

  ActivationArenas arenas(*backend);
  Context context = arenas.begin(dtype);
  context.training = true;
  transformer.accumulate_gradients(
      context, DeviceBatch(*backend, context.saved, even_batch(sentences, source_tokens, target_tokens)), 1);
  expect_close(estimate.activations, arenas.saved().peak_bytes(), "activations");
  expect_close(estimate.scratch, arenas.scratch().peak_bytes(), "scratch");
  EXPECT_EQ(estimate.total(),
            estimate.weights + estimate.gradients + estimate.moments + estimate.activations + estimate.scratch);
}

ModelConfig small_model(const std::string& norm, const std::string& tied, double dropout) {
  return {.encoder_layers = 3,
          .decoder_layers = 2,
          .width = 128,
          .heads = 4,
          .inner = 512,
          .dropout = dropout,
          .norm = norm,
          .tied_embeddings = tied,
          .attention_bias = tied == "decoder"};
}

TEST(MemoryEstimate, EqualsTheMemoryOfAnUpdate) {
  check_estimate(small_model("pre", "all", 0.1), "f32", 16, 20, 1000);
  check_estimate(small_model("post", "decoder", 0), "f32", 20, 16, 1000);
  check_estimate(small_model("pre", "none", 0), "f32", 40, 10, 50);    // the encoder determines scratch
  check_estimate(small_model("post", "all", 0.3), "f32", 10, 40, 50);  // attention or feed-forward determines scratch
  ModelConfig wide = small_model("pre", "all", 0.1);
  wide.inner = 1024;  // rows of 4 KiB are padded
  check_estimate(wide, "f32", 20, 20, 50);
  check_estimate(small_model("pre", "all", 0.1), "bf16", 16, 20, 1000);
}

/// Compares the estimate for a GPU with a dry run.
TEST(MemoryEstimate, EqualsTheDryRunOfADevice) {
  const auto device = make_test_backend("emulated"), memory = make_dry_backend();
  TrainConfig config;
  config.training.device = "cuda";
  config.data.tokens_per_update = 3000;
  for (const std::int64_t vocabulary : {50, 32'000}) {  // scratch is keys and values, or logits of more than 160 MB
    config.model = small_model("pre", "all", 0.1);
    config.model.activation_dropout = 0.1;  // no ReLU masks
    const auto estimate = estimate_memory(config, vocabulary, 1, 2);
    const Transformer model(config.model, vocabulary, 0.1f, *memory, DType::bf16);
    const ArenaBytes need = dry_run(model, *device, 6000, 3000);
    expect_close(estimate.activations, need.saved, "activations");
    expect_close(estimate.scratch, need.scratch, "scratch");
  }
}

TEST(MemoryEstimate, CountsParametersOfKnownModels) {
  // Vaswani et al. 2017, table 3: 65 and 213 million with 37,000 subwords. Ours adds final norms and biases.
  EXPECT_NEAR(static_cast<double>(count_parameters(model_preset("transformer-base"), 37'000)), 63e6, 2e6);
  EXPECT_NEAR(static_cast<double>(count_parameters(model_preset("transformer-big"), 37'000)), 214e6, 3e6);
}

TEST(MemoryEstimate, AppliesTheMicroBatchLimit) {
  TrainConfig config;
  config.data.tokens_per_update = 10'001;
  const auto whole = estimate_memory(config, 1000, 4, 1.5);
  EXPECT_EQ(whole.target_tokens, 2501);
  EXPECT_EQ(whole.source_tokens, 3752);
  config.data.micro_batch_tokens = 3000;
  const auto limited = estimate_memory(config, 1000, 4, 1.5);
  EXPECT_EQ(limited.target_tokens, 2501);
  EXPECT_EQ(limited.source_tokens, 3000);
  EXPECT_LT(limited.activations, whole.activations);
  EXPECT_EQ(limited.weights, whole.weights);
}

}  // namespace
}  // namespace babelring
