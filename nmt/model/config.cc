#include "nmt/model/config.h"

#include "base/nearest.h"
#include "nmt/layers/encoder_layer.h"

namespace babelring {

void ModelConfig::bind(OptionBinder& b) {
  b.integer("encoder_layers", encoder_layers, 0, 100, "number of encoder layers; translation needs at least 1");
  b.integer("decoder_layers", decoder_layers, 1, 100, "number of decoder layers");
  b.integer("width", width, 2, 65536, "features per token (d_model); even and a multiple of heads");
  b.integer("heads", heads, 1, 256, "number of attention heads");
  b.integer("inner", inner, 1, 1 << 20, "hidden features of each feed-forward block");
  b.number("dropout", dropout, 0, 0.99, "dropout probability on embeddings and sub-layer outputs");
  b.number("attention_dropout", attention_dropout, 0, 0.99, "dropout probability on attention weights");
  b.number("activation_dropout", activation_dropout, 0, 0.99, "dropout probability after the feed-forward ReLU");
  b.choice("norm", norm, {{"pre", NormPlace::pre}, {"post", NormPlace::post}},
           "layer normalisation before each sub-layer (pre) or after its residual sum (post)");
  b.choice("tied_embeddings", tied_embeddings,
           {{"all", TiedEmbeddings::all}, {"decoder", TiedEmbeddings::decoder}, {"none", TiedEmbeddings::none}},
           "embeddings that share one table; all: source, target and output; decoder: target and output; none: three "
           "tables");
  b.flag("attention_bias", attention_bias, "add biases to the attention projections (Vaswani et al. 2017 use none)");
}

void ModelConfig::check() const {
  if (width % heads != 0)
    throw ConfigError("model.heads", fmt::format("model.heads: {} does not divide model.width {}", heads, width));
  if (width % 2 != 0)
    throw ConfigError("model.width", fmt::format("model.width: {} is odd; sinusoidal positions need pairs", width));
}

LayerOptions ModelConfig::layer_options() const {
  return {.attention = {.width = width,
                        .heads = heads,
                        .dropout = static_cast<float>(attention_dropout),
                        .bias = attention_bias},
          .inner = inner,
          .norm = norm,
          .dropout = static_cast<float>(dropout),
          .activation_dropout = static_cast<float>(activation_dropout)};
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
  throw ConfigError("preset", fmt::format("preset: '{}' is unknown; known are {}{}", name, fmt::join(known, ", "),
                                          did_you_mean(name, known)));
}

}  // namespace babelring
