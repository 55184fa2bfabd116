#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/json.h"
#include "nmt/model/language_model.h"
#include "nmt/model/transformer.h"
#include "tests/nmt/model/model_run.h"

namespace babelring {
namespace {

constexpr double tolerance = 1e-4;  // relative, for f32

json::object read_golden(const std::string& name) {
  const char* moved = std::getenv("BABELRING_SOURCE_DIR");  // set if the test runs on another machine than the build
  std::ifstream file(std::string(moved != nullptr ? moved : BABELRING_SOURCE_DIR) + "/tests/golden/model/" + name +
                     ".json");
  std::stringstream text;
  text << file.rdbuf();
  return parse_json(text.str()).value().as_object();
}

template <class T>
std::vector<T> numbers(const json::value& array) {
  std::vector<T> values;
  for (const json::value& value : array.as_array()) values.push_back(static_cast<T>(value.to_number<double>()));
  return values;
}

ModelConfig config_of(const json::object& golden) {
  ModelConfig config;
  config.encoder_layers = golden.at("encoder_layers").to_number<int>();
  config.decoder_layers = golden.at("decoder_layers").to_number<int>();
  config.width = golden.at("width").to_number<std::int64_t>();
  config.heads = golden.at("heads").to_number<int>();
  config.inner = golden.at("inner").to_number<std::int64_t>();
  OptionBinder keys;
  config.bind(keys);
  for (const char* key : {"norm", "tied_embeddings", "norm_kind", "activation", "positions"}) {
    if (!golden.contains(key)) continue;
    apply_override(keys, fmt::format("{}={}", key, std::string_view(golden.at(key).as_string())));
  }
  config.attention_bias = golden.at("attention_bias").as_bool();
  config.dropout = 0;
  return config;
}

/// Compares a training step with a stored step of an independent implementation (tests/golden/model/make_golden.py,
/// make_lm_golden.py) on the same weights.
class Golden : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  Golden()
      : golden_(read_golden(std::get<1>(GetParam()))),
        run_(std::get<0>(GetParam()), config_of(golden_.at("config").as_object()),
             golden_.at("config").at("vocabulary").to_number<std::int64_t>()) {
    for (const Parameter& parameter : run_.parameters().all()) {
      run_.backend().upload(stored(parameter, "weight").data(), parameter.master);
    }
    batch_ = golden_.contains("sequences") ? pack_sequences() : pack_pairs();
  }

  PackedBatch pack_pairs() const {
    std::vector<Pair> pairs;
    for (const json::value& sentence : golden_.at("sentences").as_array()) {
      pairs.push_back({numbers<std::int32_t>(sentence.at("source")), numbers<std::int32_t>(sentence.at("target"))});
    }
    return pack(pairs);
  }

  /// The batch of a language model, which reads the target side only.
  PackedBatch pack_sequences() const {
    PackedBatch batch;
    for (const json::value& sequence : golden_.at("sequences").as_array()) {
      for (const std::int32_t id : numbers<std::int32_t>(sequence.at("in"))) batch.target_in.ids.push_back(id);
      for (const std::int32_t id : numbers<std::int32_t>(sequence.at("out"))) batch.target_out.push_back(id);
      batch.target_in.offsets.push_back(static_cast<std::int32_t>(batch.target_in.tokens()));
      batch.source.offsets.push_back(0);
    }
    return batch;
  }

  /// Logits [target tokens, vocabulary] from the reference prefixes.
  Tensor logits(Context& pass, const DeviceBatch& batch) {
    if (const auto* model = dynamic_cast<const LanguageModel*>(&run_.model())) return model->logits(pass, batch.target);
    return require_transformer(run_.model()).teacher_forced_logits(pass, batch.source, batch.target);
  }

  std::vector<float> stored(const Parameter& parameter, const char* what) const {
    const json::value& entry = golden_.at("parameters").at(parameter.name);
    std::vector<float> values = numbers<float>(entry.at(what));
    EXPECT_EQ(std::ssize(values), parameter.shape.elements()) << parameter.name;
    return values;
  }
  double stored(const char* what) const { return golden_.at(what).to_number<double>(); }

  json::object golden_;
  ModelRun run_;
  PackedBatch batch_;
};

INSTANTIATE_TEST_SUITE_P(
    All, Golden,
    testing::Combine(testing::ValuesIn(available_backends()),
                     testing::Values("pre_tied_all", "post_untied", "modern", "lm_pre_tied", "lm_post_untied")),
    [](const auto& parameter) { return std::get<0>(parameter.param) + "_" + std::get<1>(parameter.param); });

TEST(GoldenOnTheGpu, RunsIfAGpuIsAvailable) {
  if (!find_cuda()) GTEST_SKIP() << "no GPU: " << find_cuda().error();
  EXPECT_EQ(available_backends().back(), "cuda");
}

TEST_P(Golden, LossAndAllGradients) {
  run_.zero_gradients();
  const LossSums sums = run_.accumulate(batch_, 1 / static_cast<float>(batch_.target_out.size()));
  EXPECT_NEAR(sums.loss / stored("loss"), 1, tolerance);
  EXPECT_NEAR(sums.nll / stored("nll"), 1, tolerance);
  EXPECT_EQ(sums.tokens, static_cast<double>(batch_.target_out.size()));
  EXPECT_EQ(run_.parameters().all().size(), golden_.at("parameters").as_object().size());
  for (const Parameter& parameter : run_.parameters().all()) {
    EXPECT_LT(relative_distance(run_.download(parameter.gradient), stored(parameter, "gradient")), tolerance)
        << parameter.name;
  }
}

TEST_P(Golden, Logits) {
  Context pass = run_.context(false);
  const DeviceBatch batch(run_.backend(), pass.saved, batch_);
  EXPECT_LT(relative_distance(run_.download(logits(pass, batch)), numbers<float>(golden_.at("logits"))), tolerance);
  const LossSums sums = run_.evaluate(batch_);
  EXPECT_NEAR(sums.loss / stored("loss"), 1, tolerance);
}

}  // namespace
}  // namespace babelring
