#include "nmt/model/config.h"

#include "base/nearest.h"

namespace babelring {

void ModelConfig::bind(OptionBinder& b) {
  b.integer("encoder_layers", encoder_layers, 1, 100, "layers of the encoder");
  b.integer("decoder_layers", decoder_layers, 1, 100, "layers of the decoder");
  b.integer("width", width, 2, 65536, "features of a token (d_model), even");
  b.integer("heads", heads, 1, 256, "attention heads; must divide the width");
  b.integer("inner", inner, 1, 1 << 20, "hidden features of the feed-forward layers");
  b.number("dropout", dropout, 0, 0.99, "probability, on embeddings and sub-layer outputs");
  b.number("attention_dropout", attention_dropout, 0, 0.99, "probability, on attention weights");
  b.number("activation_dropout", activation_dropout, 0, 0.99, "probability, after the feed-forward's ReLU");
  b.choice("norm", norm, {"pre", "post"}, "layer normalisation before each sub-layer or after its residual sum");
  b.choice("tied_embeddings", tied_embeddings, {"all", "decoder", "none"},
           "all: source, target and output share one table; decoder: target and output; none");
  b.flag("attention_bias", attention_bias, "biases in the attention projections (Vaswani et al. have none)");
}

void ModelConfig::check() const {
  if (width % heads != 0)
    throw UsageFailure(fmt::format("model.heads: {} does not divide model.width {}", heads, width));
  if (width % 2 != 0) throw UsageFailure(fmt::format("model.width: {} is odd; sinusoidal positions need pairs", width));
}

ModelConfig model_preset(const std::string& name) {
  ModelConfig config;
  if (name == "transformer-base") return config;
  if (name == "transformer-tiny") {
    config.encoder_layers = config.decoder_layers = 4;
    config.width = 128;
    config.heads = 4;
    config.inner = 256;
    config.dropout = 0.3;
    return config;
  }
  if (name == "transformer-big") {
    config.width = 1024;
    config.heads = 16;
    config.inner = 4096;
    config.dropout = 0.3;
    return config;
  }
  const std::vector<std::string> known = {"transformer-tiny", "transformer-base", "transformer-big"};
  throw UsageFailure(
      fmt::format("preset: '{}' is unknown; known are {}{}", name, fmt::join(known, ", "), did_you_mean(name, known)));
}

}  // namespace babelring
