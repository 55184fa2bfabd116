#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nmt/model/model.h"
#include "nmt/ops/elementwise.h"
#include "tests/reference/test_backends.h"

namespace babelring {

/// Subword ids of a sentence and its translation, without <s> and </s>.
struct Pair {
  std::vector<std::int32_t> source, target;
  std::vector<std::vector<std::int32_t>> links =
      {};  // of each target subword to source positions; empty: no alignments
};

inline constexpr std::int32_t test_bos = 1, test_eos = 2;
inline constexpr std::int64_t test_vocabulary = 11;  // above all ids of test_pairs()

/// Packs sentence pairs into a micro-batch that starts at the given rows of its update.
inline PackedBatch pack(const std::vector<Pair>& pairs, std::int64_t first_source_row = 0,
                        std::int64_t first_target_row = 0) {
  PackedBatch batch;
  const auto close = [](PackedSequences& side) { side.offsets.push_back(static_cast<std::int32_t>(side.ids.size())); };
  for (const Pair& pair : pairs) {
    batch.source.ids.insert(batch.source.ids.end(), pair.source.begin(), pair.source.end());
    batch.source.ids.push_back(test_eos);
    close(batch.source);
    batch.target_in.ids.push_back(test_bos);
    batch.target_in.ids.insert(batch.target_in.ids.end(), pair.target.begin(), pair.target.end());
    close(batch.target_in);
    batch.target_out.insert(batch.target_out.end(), pair.target.begin(), pair.target.end());
    batch.target_out.push_back(test_eos);
    if (pair.links.empty()) continue;
    if (batch.links.offsets.empty()) batch.links.offsets.push_back(0);
    for (std::size_t row = 0; row <= pair.target.size(); ++row) {
      if (row < pair.links.size()) {
        batch.links.sources.insert(batch.links.sources.end(), pair.links[row].begin(), pair.links[row].end());
      }
      batch.links.offsets.push_back(static_cast<std::int32_t>(batch.links.sources.size()));
    }
  }
  batch.first_source_row = first_source_row;
  batch.first_target_row = first_target_row;
  return batch;
}

/// Pairs with unequal lengths, a one-token source, an empty target, repeated and unknown ids.
inline std::vector<Pair> test_pairs() {
  return {
      {{3, 4, 5, 6, 7}, {8, 9, 10}}, {{10}, {3, 3, 4, 5}}, {{9, 9, 9, 8, 0, 7, 6}, {}}, {{5, 3}, {7, 0, 6, 5, 4, 3}}};
}

/// The same with alignments: of one, several or no source positions.
inline std::vector<Pair> aligned_pairs() {
  std::vector<Pair> pairs = test_pairs();
  pairs[0].links = {{0}, {}, {2, 4}};
  pairs[1].links = {{0}, {0}, {0}, {}};
  pairs[2].links = {{}};
  pairs[3].links = {{1}, {}, {0, 1}, {1}, {}, {0}};
  return pairs;
}

inline ModelConfig small_config(NormPosition norm, TiedEmbeddings tied, double dropout) {
  return {.encoder_layers = 2,
          .decoder_layers = 2,
          .width = 8,
          .heads = 2,
          .inner = 13,
          .dropout = dropout,
          .attention_dropout = dropout,
          .activation_dropout = dropout,
          .norm = norm,
          .tied_embeddings = tied,
          .attention_bias = tied == TiedEmbeddings::none};
}

/// A model with its backend and arenas.
class ModelRun {
 public:
  ModelRun(const std::string& backend, const ModelConfig& config, std::int64_t vocabulary, DType compute = DType::f32)
      : backend_(make_test_backend(backend)),
        saved_([this](std::size_t bytes) { return backend_->allocate(bytes); }),
        scratch_([this](std::size_t bytes) { return backend_->allocate(bytes); }),
        model_(make_model(config, vocabulary, 0.1f, parameter_memory_of(*backend_), compute)) {
    model_->initialize(*backend_, 17);
  }

  Model& model() { return *model_; }
  Backend& backend() { return *backend_; }
  const ParameterStore& parameters() const { return model_->parameters(); }

  Context context(bool training) {
    saved_.reset();
    scratch_.reset();
    return {.backend = *backend_,
            .saved = saved_,
            .scratch = scratch_,
            .dtype = model_->compute_dtype(),
            .training = training,
            .dropout_seed = 99,
            .layer_drop = training ? layer_drop_ : 0};
  }

  /// Passes with dropout leave out layers, each with this probability.
  void drop_layers(float probability) { layer_drop_ = probability; }

  void zero_gradients() { backend_->run(Fill{.y = parameters().gradients(), .value = 0}); }

  /// Adds a micro-batch's gradients, computed with dropout.
  LossSums accumulate(const PackedBatch& batch, float scale,
                      std::function<void(const Parameter&)> gradient_ready = {}) {
    Context pass = context(true);
    pass.gradient_ready = std::move(gradient_ready);
    return add_gradients(pass, batch, scale);
  }

  /// Overwrites all gradients with those of a micro-batch.
  LossSums overwrite(const PackedBatch& batch, float scale) {
    Context pass = context(true);
    pass.accumulate = false;
    return add_gradients(pass, batch, scale);
  }

  LossSums evaluate(const PackedBatch& batch) {
    Context pass = context(false);
    return model_->evaluate(pass, DeviceBatch(*backend_, saved_, batch));
  }

  std::vector<float> download(ConstTensor tensor) const {
    std::vector<float> values(static_cast<std::size_t>(tensor.shape.elements()));
    backend_->download(tensor, values.data());
    return values;
  }
  std::vector<float> gradients() const { return download(parameters().gradients()); }

 private:
  LossSums add_gradients(Context& pass, const PackedBatch& batch, float scale) {
    const DeviceBatch on_device(*backend_, saved_, batch);
    const FetchedLosses losses(*backend_, model_->add_gradients(pass, on_device, scale));
    backend_->synchronize();
    return losses.sums();
  }

  std::unique_ptr<Backend> backend_;
  Arena saved_, scratch_;
  std::unique_ptr<Model> model_;
  float layer_drop_ = 0;
};

inline double length_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

/// |a - b| / |b| in the Euclidean norm.
inline double relative_distance(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return length_of(a) / length_of(b);
}

}  // namespace babelring
