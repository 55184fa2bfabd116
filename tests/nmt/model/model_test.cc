#include "nmt/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <set>

#include "base/failure.h"
#include "nmt/model/transformer.h"
#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

struct Case {
  std::string backend;
  NormPosition norm;
  TiedEmbeddings tied;
  double dropout;
  bool language_model = false;
};

ModelConfig config_of(const Case& c) {
  ModelConfig config = small_config(c.norm, c.tied, c.dropout);
  if (c.language_model) config.encoder_layers = 0;
  return config;
}

class ModelCase : public testing::TestWithParam<Case> {
 protected:
  ModelCase() : run_(GetParam().backend, config_of(GetParam()), test_vocabulary) {}
  ModelRun run_;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const std::string& backend : available_backends()) {
    if (backend == "closed" || backend == "emulated") continue;  // the golden models go through as much of the code
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      for (const TiedEmbeddings tied : {TiedEmbeddings::all, TiedEmbeddings::decoder, TiedEmbeddings::none}) {
        for (const double dropout : {0.0, 0.25}) cases.push_back({backend, norm, tied, dropout});
        if (tied != TiedEmbeddings::decoder) cases.push_back({backend, norm, tied, 0.25, true});
      }
    }
  }
  return cases;
}

std::string name_of(const Case& c) {
  constexpr std::array tied = {"all", "decoder", "none"};
  return c.backend + (c.norm == NormPosition::pre ? "_pre_" : "_post_") + tied.at(static_cast<std::size_t>(c.tied)) +
         (c.dropout > 0 ? "_dropout" : "") + (c.language_model ? "_language_model" : "");
}

INSTANTIATE_TEST_SUITE_P(All, ModelCase, testing::ValuesIn(all_cases()),
                         [](const auto& parameter) { return name_of(parameter.param); });

/// The weights that ops read although Context::before_read had not named them.
class UnnamedWeights final : public OpObserver {
 public:
  explicit UnnamedWeights(const ParameterStore& store) : store_(store) {}

  void name(const Parameter& parameter) { named_.insert(parameter.name); }
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun& run) override {
    for (const OpField& field : run.fields) {
      const auto found = store_.at(field.tensor.data);
      if (!found || found->array == ParameterArray::gradients || field.access == Access::writes) continue;
      if (!named_.contains(found->parameter->name)) {
        unnamed_.insert(fmt::format("{} by {}", found->parameter->name, run.op));
      }
    }
  }
  const std::set<std::string>& named() const { return named_; }
  const std::set<std::string>& unnamed() const { return unnamed_; }

 private:
  const ParameterStore& store_;
  std::set<std::string> named_, unnamed_;
};

TEST_P(ModelCase, NamesEveryParameterBeforeItIsRead) {
  const PackedBatch packed = pack(test_pairs());
  for (const bool training : {false, true}) {
    UnnamedWeights reads(run_.parameters());
    Context pass = run_.context(training);
    pass.before_read = [&](const Parameter& parameter) { reads.name(parameter); };
    const DeviceBatch batch(run_.backend(), pass.saved, packed);
    run_.backend().observe(&reads);
    if (training) {
      run_.model().add_gradients(pass, batch, 1);
    } else {
      run_.model().evaluate(pass, batch);
    }
    run_.backend().observe(nullptr);
    EXPECT_THAT(reads.unnamed(), testing::IsEmpty());
    EXPECT_EQ(reads.named().size(), run_.parameters().all().size());
  }
}

/// Mean token loss of a training pass with dropout.
double loss_of(ModelRun& run, const PackedBatch& batch) {
  return run.accumulate(batch, 1).loss / static_cast<double>(batch.target_out.size());
}

// All passes use the same dropout key, so the differences are of the function that backward differentiates. A large
// step may cross a ReLU kink and a small one suffers from rounding, so the best of three steps counts.
TEST_P(ModelCase, GradientsEqualCentralDifferences) {
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
TEST_P(ModelCase, GradientsAddUpOverMicroBatches) {
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
TEST_P(ModelCase, OverwritesGradientsWithoutAccumulate) {
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

TEST_P(ModelCase, ReportsEachCompleteGradientOnce) {
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

TEST_P(ModelCase, EvaluatesWithoutDropoutOrGradients) {
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

class OtherModel : public Model {
 public:
  OtherModel() : Model(10, DType::f32) {}
  const char* kind() const override { return "another model"; }
  const Parameter* shared_table() const override { return nullptr; }
  ConstTensor add_gradients(Context&, const DeviceBatch&, float) const override { return {}; }
  LossSums evaluate(Context&, const DeviceBatch&, Tensor) const override { return {}; }
};

TEST(Model, IsTheTransformerOfItsConfiguration) {
  const auto backend = make_cpu_backend(1);
  const ModelConfig config{.encoder_layers = 1, .decoder_layers = 2, .width = 16, .heads = 2, .inner = 24};
  const std::unique_ptr<Model> model = make_model(config, 11, 0.1f, parameter_memory_of(*backend), DType::f32);
  const Transformer& transformer = require_transformer(*model);
  EXPECT_EQ(&transformer, model.get());
  EXPECT_EQ(transformer.decoder().size(), 2U);
  EXPECT_EQ(model->vocabulary(), 11);
  EXPECT_EQ(model->parameters().count(), count_parameters(config, 11));
}

TEST(Model, RefusesToTranslateUnlessEncoderDecoder) {
  EXPECT_THAT([] { require_transformer(OtherModel()); },
              testing::ThrowsMessage<UsageFailure>("translating needs a Transformer, found another model"));
}

}  // namespace
}  // namespace babelring
