#include "nmt/model/transformer.h"

#include <gmock/gmock.h>

#include <array>
#include <limits>
#include <map>

#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

constexpr std::int64_t vocabulary = 11;

struct Case {
  std::string backend;
  NormPlace norm;
  TiedEmbeddings tied;
  double dropout;
};

class TransformerCase : public testing::TestWithParam<Case> {
 protected:
  TransformerCase()
      : run_(GetParam().backend, small_config(GetParam().norm, GetParam().tied, GetParam().dropout), vocabulary) {}
  ModelRun run_;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& backend : available_backends()) {
    if (backend == "closed" || backend == "emulated") continue;  // the golden models go through as much of the code
    for (const NormPlace norm : {NormPlace::pre, NormPlace::post}) {
      for (const TiedEmbeddings tied : {TiedEmbeddings::all, TiedEmbeddings::decoder, TiedEmbeddings::none}) {
        for (const double dropout : {0.0, 0.25}) cases.push_back({backend, norm, tied, dropout});
      }
    }
  }
  return cases;
}

std::string name_of(const Case& c) {
  constexpr std::array tied = {"all", "decoder", "none"};
  return c.backend + (c.norm == NormPlace::pre ? "_pre_" : "_post_") + tied.at(static_cast<std::size_t>(c.tied)) +
         (c.dropout > 0 ? "_dropout" : "");
}

INSTANTIATE_TEST_SUITE_P(All, TransformerCase, testing::ValuesIn(all_cases()),
                         [](const auto& parameter) { return name_of(parameter.param); });

/// Mean token loss of a training pass with dropout.
double loss_of(ModelRun& run, const PackedBatch& batch) {
  return run.accumulate(batch, 1).loss / static_cast<double>(batch.target_out.size());
}

// All passes use the same dropout key, so the differences are of the function that backward differentiates. A large
// step may cross a ReLU kink and a small one suffers from rounding, so the best of three steps counts.
TEST_P(TransformerCase, GradientsEqualCentralDifferences) {
  const PackedBatch batch = pack(test_pairs());
  Random random(3);
  for (const Parameter& parameter : run_.parameters().all()) {  // break the symmetry of zeros and ones
    std::vector<float> values = run_.download(parameter.master);
    for (float& value : values) value += static_cast<float>(0.2 * random.normal());
    run_.backend().upload(values.data(), parameter.master);
  }
  run_.zero_gradients();
  run_.accumulate(batch, 1 / static_cast<float>(batch.target_out.size()));
  std::map<std::string, std::vector<float>> gradients;
  for (const Parameter& parameter : run_.parameters().all()) {
    gradients[parameter.name] = run_.download(parameter.gradient);
  }
  for (const Parameter& parameter : run_.parameters().all()) {
    const std::vector<float> value = run_.download(parameter.master);
    std::vector<float> direction(value.size());
    for (float& element : direction) element = static_cast<float>(random.normal());
    const double length = length_of(direction);
    const auto loss_at = [&](double distance) {
      std::vector<float> moved = value;
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += static_cast<float>(distance / length) * direction[i];
      run_.backend().upload(moved.data(), parameter.master);
      return loss_of(run_, batch);
    };
    double along = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      along += static_cast<double>(gradients[parameter.name][i]) * static_cast<double>(direction[i]) / length;
    }
    double error = std::numeric_limits<double>::infinity();
    for (const double step : {4e-3, 1e-3, 3e-4}) {
      error = std::min(error, std::abs((loss_at(step) - loss_at(-step)) / (2 * step) - along));
    }
    run_.backend().upload(value.data(), parameter.master);
    EXPECT_LT(error, 0.01 * std::max(0.05, length_of(gradients[parameter.name]))) << parameter.name << ": " << along;
  }
}

// Dropout bits depend on global rows, so splitting a batch into micro-batches or ranks gives the same sum.
TEST_P(TransformerCase, GradientsAddUpOverMicroBatches) {
  const std::vector<Pair> pairs = test_pairs();
  const PackedBatch whole = pack(pairs);
  run_.zero_gradients();
  const LossSums expected = run_.accumulate(whole, 0.25f);
  const std::vector<float> expected_gradients = run_.gradients();

  run_.zero_gradients();
  const PackedBatch first = pack({pairs[0], pairs[1]});
  const PackedBatch second = pack({pairs[2], pairs[3]}, first.source.tokens(), first.target_in.tokens());
  LossSums sums = run_.accumulate(second, 0.25f);
  sums += run_.accumulate(first, 0.25f);
  EXPECT_NEAR(sums.loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_NEAR(sums.nll, expected.nll, 1e-5 * expected.nll);
  EXPECT_EQ(sums.correct, expected.correct);
  EXPECT_EQ(sums.tokens, expected.tokens);
  EXPECT_LT(relative_distance(run_.gradients(), expected_gradients), 1e-5);
}

// The first micro-batch of an update does not require cleared gradients.
TEST_P(TransformerCase, OverwritesGradientsWithoutAccumulate) {
  for (const PackedBatch& batch : {pack(test_pairs()), PackedBatch()}) {
    run_.zero_gradients();
    run_.accumulate(batch, 0.5f);
    const std::vector<float> expected = run_.gradients();
    for (const Parameter& parameter : run_.parameters().all()) {
      const std::vector<float> old(static_cast<std::size_t>(parameter.shape.elements()), NAN);
      run_.backend().upload(old.data(), parameter.gradient);
    }
    run_.overwrite(batch, 0.5f);
    EXPECT_EQ(run_.gradients(), expected);
  }
}

TEST_P(TransformerCase, ReportsEachCompleteGradientOnce) {
  for (const PackedBatch& batch : {pack(test_pairs()), PackedBatch()}) {
    run_.zero_gradients();
    std::map<std::string, std::vector<float>> reported;
    const LossSums sums = run_.accumulate(batch, 0.5f, [&](const Parameter& parameter) {
      EXPECT_EQ(reported.count(parameter.name), 0U) << parameter.name << " reported twice";
      reported[parameter.name] = run_.download(parameter.gradient);
    });
    EXPECT_EQ(sums.tokens, static_cast<double>(batch.target_out.size()));
    for (const Parameter& parameter : run_.parameters().all()) {
      ASSERT_EQ(reported.count(parameter.name), 1U) << parameter.name << " not reported";
      EXPECT_EQ(reported[parameter.name], run_.download(parameter.gradient)) << parameter.name;
    }
  }
}

TEST_P(TransformerCase, EvaluatesWithoutDropoutOrGradients) {
  const PackedBatch batch = pack(test_pairs());
  run_.zero_gradients();
  const LossSums sums = run_.evaluate(batch);
  EXPECT_EQ(length_of(run_.gradients()), 0);
  const double training = loss_of(run_, batch) * sums.tokens;
  if (GetParam().dropout > 0) {
    EXPECT_GT(std::abs(training - sums.loss), 1e-3);
  } else {
    EXPECT_NEAR(training, sums.loss, 1e-5 * sums.loss);
  }
}

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
    ModelConfig config = small_config(NormPlace::pre, TiedEmbeddings::all, 0);
    config.decoder_layers = 5;
    ModelRun run(backend, config, vocabulary);
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

TEST(Transformer, HasTheParametersOfPublishedModels) {
  // Vaswani et al. 2017, table 3: 65 and 213 million with 37,000 subwords. Ours adds final norms and biases.
  EXPECT_NEAR(static_cast<double>(count_parameters(model_preset("transformer-base"), 37'000)), 63e6, 2e6);
  EXPECT_NEAR(static_cast<double>(count_parameters(model_preset("transformer-big"), 37'000)), 214e6, 3e6);
}

TEST(Transformer, GradientDescentReducesTheLoss) {
  ModelRun run("cpu", small_config(NormPlace::pre, TiedEmbeddings::all, 0), vocabulary);
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
    for (const NormPlace norm : {NormPlace::pre, NormPlace::post}) {
      ModelConfig config = small_config(norm, TiedEmbeddings::all, 0.1);
      config.width = 64;
      config.inner = 128;
      ModelRun exact(backend, config, vocabulary), rounded(backend, config, vocabulary, DType::bf16);
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
