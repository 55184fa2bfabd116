#include "nmt/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <set>

#include "base/failure.h"
#include "nmt/model/transformer.h"
#include "nmt/ops/layer_norm.h"
#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

struct Case {
  std::string backend;
  NormPosition norm;
  TiedEmbeddings tied;
  double dropout;
  bool language_model = false;
  Activation activation = Activation::relu;
  bool as_marian = false;  // positions, output bias, and for translation the decoder's start
  bool guided = false;     // with guided alignment
  bool r_drop = false;
  float layer_drop = 0;
  bool modern = false;  // with_modern_layers()
};

ModelConfig config_of(const Case& c) {
  ModelConfig config = small_config(c.norm, c.tied, c.dropout);
  if (c.modern) config = with_modern_layers(config);
  if (c.language_model) config.encoder_layers = 0;
  if (!c.modern) config.activation = c.activation;
  if (c.as_marian) {
    config.positions = Positions::marian;
    config.output_bias = true;
    if (!c.language_model) config.decoder_start = DecoderStart::zero;
  }
  return config;
}

class ModelCase : public testing::TestWithParam<Case> {
 protected:
  ModelCase() : run_(GetParam().backend, config_of(GetParam()), test_vocabulary) {
    if (GetParam().guided) run_.model().set_guided_alignment(0.7f);
    if (GetParam().r_drop) run_.model().set_r_drop(3);
    run_.drop_layers(GetParam().layer_drop);
  }
  static std::vector<Pair> pairs() { return GetParam().guided ? aligned_pairs() : test_pairs(); }
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
    for (const Activation activation : {Activation::swish, Activation::gelu}) {
      cases.push_back({backend, NormPosition::pre, TiedEmbeddings::all, 0.25, false, activation});
      cases.push_back({backend, NormPosition::post, TiedEmbeddings::none, 0, true, activation});
    }
    for (const TiedEmbeddings tied : {TiedEmbeddings::all, TiedEmbeddings::none}) {
      cases.push_back({backend, NormPosition::post, tied, 0.25, false, Activation::swish, true});
    }
    cases.push_back({backend, NormPosition::pre, TiedEmbeddings::all, 0.25, true, Activation::relu, true});
    for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
      cases.push_back({.backend = backend, .norm = norm, .tied = TiedEmbeddings::all, .dropout = 0.25, .guided = true});
      for (const bool language_model : {false, true}) {
        Case c{.backend = backend, .norm = norm, .tied = TiedEmbeddings::all, .dropout = 0.25};
        c.language_model = language_model;
        c.layer_drop = 0.5f;
        cases.push_back(c);
        c.r_drop = true;
        cases.push_back(c);
        c.layer_drop = 0;
        c.guided = !language_model;
        c.tied = TiedEmbeddings::none;
        c.activation = Activation::gelu;  // ReLU's kinks are many where both passes have them
        cases.push_back(c);
        c.modern = true;
        cases.push_back(c);
      }
    }
    for (const bool language_model : {false, true}) {
      for (const NormPosition norm : {NormPosition::pre, NormPosition::post}) {
        Case c{.backend = backend, .norm = norm, .tied = TiedEmbeddings::all, .dropout = 0.25};
        c.language_model = language_model;
        c.modern = true;
        cases.push_back(c);
        c.tied = TiedEmbeddings::none;
        c.dropout = 0;
        cases.push_back(c);
      }
    }
  }
  return cases;
}

std::string name_of(const Case& c) {
  constexpr std::array tied = {"all", "decoder", "none"};
  return c.backend + (c.norm == NormPosition::pre ? "_pre_" : "_post_") + tied.at(static_cast<std::size_t>(c.tied)) +
         (c.dropout > 0 ? "_dropout" : "") + (c.language_model ? "_language_model" : "") +
         (c.activation == Activation::relu ? "" : "_" + std::string(name_of(c.activation))) +
         (c.modern ? "_modern" : "") + (c.as_marian ? "_as_marian" : "") + (c.guided ? "_guided" : "") +
         (c.r_drop ? "_r_drop" : "") + (c.layer_drop > 0 ? "_layer_drop" : "");
}

INSTANTIATE_TEST_SUITE_P(All, ModelCase, testing::ValuesIn(all_cases()),
                         [](const auto& parameter) { return name_of(parameter.param); });

/// Counts the norms, and those whose `rstd` is not 1 / sqrt(variance + epsilon) of the rows that they read, or of their
/// mean squares without a mean.
class NormLog final : public OpObserver {
 public:
  NormLog(Backend& backend, double epsilon) : backend_(backend), epsilon_(epsilon) {}

  Watch watch() const override { return Watch::values; }
  void ran(const OpRun& run) override {
    if (run.op != LayerNormForward::name && run.op != ResidualNormForward::name) return;
    ++norms;
    const std::vector<float> x = values(run, run.op == LayerNormForward::name ? "x" : "sum"),
                             rstd = values(run, "rstd");
    const bool centered = !values(run, "mean").empty();
    const std::size_t width = x.size() / rstd.size();
    for (std::size_t row = 0; row < rstd.size(); ++row) {
      double sum = 0, squares = 0;
      for (std::size_t i = 0; i < width; ++i) {
        const double value = static_cast<double>(x[row * width + i]);
        sum += value, squares += value * value;
      }
      const double mean = centered ? sum / static_cast<double>(width) : 0;
      const double variance = squares / static_cast<double>(width) - mean * mean;
      others += std::abs(static_cast<double>(rstd[row]) * std::sqrt(variance + epsilon_) - 1) > 1e-3 ? 1 : 0;
    }
  }
  int norms = 0, others = 0;

 private:
  std::vector<float> values(const OpRun& run, std::string_view name) const {
    for (const OpField& field : run.fields) {
      if (field.name != name) continue;
      std::vector<float> copy(static_cast<std::size_t>(field.tensor.shape.elements()));
      backend_.download(field.tensor, copy.data());
      return copy;
    }
    return {};
  }
  Backend& backend_;
  double epsilon_;
};

TEST(NormEpsilon, IsAddedInEveryNorm) {
  for (const bool language_model : {false, true}) {
    for (const auto& [norm, kind] : {std::pair{NormPosition::pre, NormKind::layer},
                                     {NormPosition::post, NormKind::layer},
                                     {NormPosition::pre, NormKind::rms},
                                     {NormPosition::post, NormKind::rms}}) {
      ModelConfig config = config_of({"cpu", norm, TiedEmbeddings::all, 0, language_model});
      config.norm_epsilon = 0.1;
      config.norm_kind = kind;
      ModelRun run("cpu", config, test_vocabulary);
      NormLog log(run.backend(), config.norm_epsilon);
      run.backend().observe(&log);
      run.accumulate(pack(test_pairs()), 1);
      run.backend().observe(nullptr);
      const int final_norms = norm == NormPosition::pre ? 1 : 0;
      EXPECT_EQ(log.norms, language_model ? 4 + final_norms : 10 + 2 * final_norms);
      EXPECT_EQ(log.others, 0);
    }
  }
}

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
  const PackedBatch packed = pack(pairs());
  for (const bool training : {false, true}) {
    UnnamedWeights reads(run_.parameters());
    Context pass = run_.context(training);
    pass.before_read = [&](const Parameter& parameter) { reads.name(parameter); };
    pass.layer_drop = 0;
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

/// Mean loss of a token in a training pass with dropout.
double loss_of(ModelRun& run, const PackedBatch& batch) {
  const LossSums sums = run.accumulate(batch, 1);
  const double guided = static_cast<double>(run.model().guided_alignment()) * sums.alignment;
  const double r_drop = static_cast<double>(run.model().r_drop()) * sums.r_drop;
  return (sums.loss + guided + r_drop) / static_cast<double>(batch.target_out.size());
}

// All passes use the same dropout key, so the differences are of the function that backward differentiates. A large
// step may cross a ReLU kink and a small one suffers from rounding, so the best of three steps counts.
TEST_P(ModelCase, GradientsEqualCentralDifferences) {
  const PackedBatch batch = pack(pairs());
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
  const std::vector<Pair> all = pairs();
  const PackedBatch whole = pack(all);
  run_.zero_gradients();
  const LossSums expected = run_.accumulate(whole, 0.25f);
  const std::vector<float> expected_gradients = run_.gradients();

  run_.zero_gradients();
  const PackedBatch first = pack({all[0], all[1]});
  const PackedBatch second = pack({all[2], all[3]}, first.source.tokens(), first.target_in.tokens());
  LossSums sums = run_.accumulate(second, 0.25f);
  sums += run_.accumulate(first, 0.25f);
  EXPECT_NEAR(sums.loss, expected.loss, 1e-5 * expected.loss);
  EXPECT_NEAR(sums.nll, expected.nll, 1e-5 * expected.nll);
  EXPECT_NEAR(sums.alignment, expected.alignment, 1e-5 * expected.alignment);
  EXPECT_EQ(expected.alignment > 0, GetParam().guided);
  EXPECT_NEAR(sums.r_drop, expected.r_drop, 1e-5 * expected.r_drop);
  EXPECT_EQ(expected.r_drop > 0, GetParam().r_drop);
  EXPECT_EQ(sums.correct, expected.correct);
  EXPECT_EQ(sums.tokens, expected.tokens);
  EXPECT_LT(relative_distance(run_.gradients(), expected_gradients), 1e-5);
}

// The first micro-batch of an update does not require cleared gradients.
TEST_P(ModelCase, OverwritesGradientsWithoutAccumulate) {
  for (const PackedBatch& batch : {pack(pairs()), PackedBatch()}) {
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
  for (const PackedBatch& batch : {pack(pairs()), PackedBatch()}) {
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
  const PackedBatch batch = pack(pairs());
  run_.zero_gradients();
  const LossSums sums = run_.evaluate(batch);
  EXPECT_EQ(length_of(run_.gradients()), 0);
  run_.model().set_guided_alignment(0);  // not part of an evaluation
  run_.model().set_r_drop(0);
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
