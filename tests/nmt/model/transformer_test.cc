#include "nmt/model/transformer.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

/// Counts the matmuls of a pass by op.
class MatmulCount final : public OpObserver {
 public:
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun& run) override {
    if (run.cost.flops > 0) ++matmuls[std::string(run.op)];
  }
  std::map<std::string, int> matmuls;
};

/// A device projects the encoder output once for all decoder layers, in forward and backward. The CPU does so once per
/// layer. Both compute weight gradients per layer.
TEST(Transformer, DeviceProjectsTheMemoryOnceForAllLayers) {
  const auto matmuls_on = [](const std::string& backend) {
    ModelConfig config = small_config(NormPosition::pre, TiedEmbeddings::all, 0);
    config.decoder_layers = 5;
    ModelRun run(backend, config, test_vocabulary);
    MatmulCount count;
    run.backend().observe(&count);
    run.accumulate(pack(test_pairs()), 1);
    run.backend().observe(nullptr);
    return count.matmuls;
  };
  const auto processor = matmuls_on("cpu"), device = matmuls_on("emulated");
  EXPECT_EQ(device.at("linear_forward"), processor.at("linear_forward") - 4);
  EXPECT_EQ(device.at("linear_backward_data"), processor.at("linear_backward_data") - 4);
  EXPECT_EQ(device.at("linear_backward_weight"), processor.at("linear_backward_weight"));
}

/// The loss of guided alignment on the emulated GPU is the reference's, and so are the gradients. Batches without links
/// have none.
TEST(Transformer, GuidedAlignmentIsTheSameOnEveryBackend) {
  ModelConfig config = small_config(NormPosition::pre, TiedEmbeddings::all, 0.1);
  config.decoder_layers = 3;
  ModelRun reference("reference", config, test_vocabulary);
  for (const std::string& backend : available_backends()) {
    ModelRun run(backend, config, test_vocabulary);
    for (ModelRun* model : {&reference, &run}) {
      model->model().set_guided_alignment(2);
      model->zero_gradients();
    }
    const LossSums expected = reference.accumulate(pack(aligned_pairs()), 0.1f);
    const LossSums found = run.accumulate(pack(aligned_pairs()), 0.1f);
    EXPECT_GT(expected.alignment, 1) << backend;
    EXPECT_NEAR(found.alignment, expected.alignment, 1e-4 * expected.alignment) << backend;
    EXPECT_LT(relative_distance(run.gradients(), reference.gradients()), 1e-4) << backend;
    EXPECT_EQ(run.accumulate(pack(test_pairs()), 0.1f).alignment, 0) << backend;
  }
}

TEST(Transformer, HasTheParametersOfPublishedModels) {
  // Vaswani et al. 2017, table 3: 65 and 213 million with 37,000 subwords. Ours adds final norms and biases.
  EXPECT_NEAR(static_cast<double>(count_parameters(model_preset("transformer-base"), 37'000)), 63e6, 2e6);
  EXPECT_NEAR(static_cast<double>(count_parameters(model_preset("transformer-big"), 37'000)), 214e6, 3e6);
}

/// Without the tables, which have the same size.
TEST(Transformer, ModernPresetsHaveTheParametersOfTheirSize) {
  const auto of_layers = [](const std::string& preset) {
    return static_cast<double>(count_parameters(model_preset(preset), 1) - model_preset(preset).width);
  };
  for (const std::string size : {"tiny", "base", "big"}) {
    EXPECT_NEAR(of_layers("modern-" + size) / of_layers("transformer-" + size), 1, 0.02) << size;
  }
}

/// In layer l, counted from 1, initial weights are as large as Glorot's over the root of l; what is around layers is
/// not scaled.
TEST(Transformer, DepthScaledWeightsShrinkFromLayerToLayer) {
  ModelConfig config = small_config(NormPosition::pre, TiedEmbeddings::all, 0);
  config.encoder_layers = 3;
  const auto memory = make_reference_backend();
  const Transformer plain(config, test_vocabulary, 0, *memory, DType::f32);
  config.initialization = Initialization::depth_scaled;
  const Transformer scaled(config, test_vocabulary, 0, *memory, DType::f32);
  for (std::size_t i = 0; i < plain.parameters().all().size(); ++i) {
    const Parameter &before = plain.parameters().all()[i], &after = scaled.parameters().all()[i];
    ASSERT_EQ(before.name, after.name);
    const bool in_layer = before.name.find(".1.") != std::string::npos || before.name.find(".2.") != std::string::npos;
    const double depth = before.name.find(".2.") != std::string::npos ? 3 : in_layer ? 2 : 1;
    const bool drawn = before.initializer.kind == Initializer::Kind::uniform;
    EXPECT_NEAR(after.initializer.scale, before.initializer.scale / (drawn ? std::sqrt(depth) : 1), 1e-7) << after.name;
  }
}

TEST(Transformer, GradientDescentReducesTheLoss) {
  ModelRun run("cpu", small_config(NormPosition::pre, TiedEmbeddings::all, 0), test_vocabulary);
  const PackedBatch batch = pack(test_pairs());
  const double before = run.evaluate(batch).loss;
  for (int step = 0; step < 30; ++step) {
    run.zero_gradients();
    run.accumulate(batch, 1 / static_cast<float>(batch.target_out.size()));
    std::vector<float> weights = run.download(run.parameters().masters());
    const std::vector<float> gradients = run.gradients();
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] -= 0.1f * gradients[i];
    run.backend().upload(weights.data(), run.parameters().masters());
  }
  EXPECT_LT(run.evaluate(batch).loss, 0.8 * before);
}

// bf16 has 8 significant bits, so rounding errors reach 0.4 %. The reference backend computes in double and rounds only
// stored values. It has the same distance from f32, so the error comes from the format and not from the matmuls.
TEST(Transformer, Bf16IsNearF32) {
  constexpr double loss_tolerance = 0.005, gradient_tolerance = 0.06;
  for (const std::string& backend : available_backends()) {
    if (backend == "closed" || backend == "emulated") continue;  // the golden models go through as much of the code
    for (const auto& [norm, modern] :
         {std::pair{NormPosition::pre, false}, {NormPosition::post, false}, {NormPosition::pre, true}}) {
      ModelConfig config = small_config(norm, TiedEmbeddings::all, 0.1);
      if (modern) config = with_modern_layers(config);
      config.width = 64;
      config.inner = 128;
      ModelRun exact(backend, config, test_vocabulary), rounded(backend, config, test_vocabulary, DType::bf16);
      const PackedBatch batch = pack(test_pairs());
      const float scale = 1 / static_cast<float>(batch.target_out.size());
      exact.zero_gradients();
      rounded.zero_gradients();
      const LossSums expected = exact.accumulate(batch, scale);
      const LossSums found = rounded.accumulate(batch, scale);
      EXPECT_NEAR(found.loss / expected.loss, 1, loss_tolerance) << backend << " " << static_cast<int>(norm);
      EXPECT_LT(relative_distance(rounded.gradients(), exact.gradients()), gradient_tolerance)
          << backend << " " << static_cast<int>(norm);
    }
  }
}

TEST(Transformer, CountsTheParametersOfBase) {
  const auto backend = make_reference_backend();
  const Transformer base(model_preset("transformer-base"), 32768, 0.1f, *backend, DType::f32);
  EXPECT_EQ(base.parameters().count(), 60'880'896);
}

TEST(ModelConfig, RejectsInvalidShapes) {
  ModelConfig config;
  config.heads = 7;
  EXPECT_THROW(config.check(), UsageFailure);
  config = ModelConfig();
  config.width = 9;
  config.heads = 3;
  EXPECT_THROW(config.check(), UsageFailure);
  config = ModelConfig();
  config.width = 24, config.heads = 8, config.positions = Positions::rotary;
  EXPECT_THAT([&] { config.check(); },
              testing::ThrowsMessage<UsageFailure>("model.heads: 8 heads of model.width 24 are 3 wide; "
                                                   "model.positions: rotary needs pairs"));
  try {
    model_preset("transformer-bse");
    FAIL() << "an unknown preset was accepted";
  } catch (const UsageFailure& failure) {
    EXPECT_THAT(failure.what(), testing::HasSubstr("did you mean 'transformer-base'?"));
  }
}

TEST(DeviceBatch, RejectsMismatchedSides) {
  const auto backend = make_reference_backend();
  Arena arena([&](std::size_t bytes) { return backend->allocate(bytes); });
  PackedBatch batch = pack(test_pairs());
  batch.target_out.pop_back();
  EXPECT_THROW(DeviceBatch(*backend, arena, batch), Failure);
}

}  // namespace
}  // namespace babelring
