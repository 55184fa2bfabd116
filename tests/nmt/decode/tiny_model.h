#pragma once

#include <memory>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// A small random Transformer, with weights large enough that its predictions differ clearly.
struct TinyModel {
  static ModelConfig config(NormPosition norm) {
    return {.encoder_layers = 2,
            .decoder_layers = 2,
            .width = 16,
            .heads = 2,
            .inner = 24,
            .norm = norm,
            .attention_bias = norm == NormPosition::post};
  }

  /// Other norms, feed-forward blocks and positions, and another number of layers in encoder and decoder.
  static ModelConfig modern() {
    ModelConfig modern = with_modern_layers(config(NormPosition::pre));
    modern.encoder_layers = 3;
    return modern;
  }

  explicit TinyModel(Backend& backend, std::int64_t vocabulary = 23, NormPosition norm = NormPosition::pre,
                     std::uint64_t seed = 5, DType compute = DType::f32)
      : TinyModel(backend, config(norm), vocabulary, seed, compute) {}
  TinyModel(Backend& backend, const ModelConfig& shape, std::int64_t vocabulary = 23, std::uint64_t seed = 5,
            DType compute = DType::f32)
      : transformer(shape, vocabulary, 0, backend, compute) {
    for (const Parameter& parameter : transformer.parameters().all()) {
      std::vector<float> values = initial_values(parameter, seed);
      for (float& value : values) value *= 1.5f;
      backend.upload(values.data(), parameter.master);
    }
    transformer.refresh_compute_copies(backend);
  }

  Transformer transformer;
};

/// Sources of the given lengths with random ids below `vocabulary`.
inline std::vector<std::vector<std::int32_t>> made_up_sources(const std::vector<std::size_t>& lengths,
                                                              std::int64_t vocabulary, std::uint64_t seed = 3) {
  Random random(seed);
  std::vector<std::vector<std::int32_t>> sources;
  for (const std::size_t length : lengths) {
    sources.emplace_back(length);
    for (std::int32_t& id : sources.back()) {
      id = first_free_id + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary - 3)));
    }
  }
  return sources;
}

inline std::vector<std::span<const std::int32_t>> spans_of(const std::vector<std::vector<std::int32_t>>& sequences) {
  return {sequences.begin(), sequences.end()};
}

}  // namespace babelring
