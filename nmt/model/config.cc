#include "nmt/model/config.h"

#include <cmath>

#include "base/text.h"
#include "nmt/layers/embedding.h"
#include "nmt/layers/transformer_layers.h"

namespace babelring {

void ModelConfig::bind(OptionBinder& b) {
  b.integer("encoder_layers", encoder_layers, 0, 100, "number of encoder layers; translation needs at least 1");
  b.integer("decoder_layers", decoder_layers, 1, 100, "number of decoder layers");
  b.integer("width", width, 2, 65536, "features per token (d_model); even and a multiple of heads");
  b.integer("heads", heads, 1, 256, "number of attention heads");
  b.integer(
      "inner", inner, 1, 1 << 20,
      "hidden features of each feed-forward block; with activation: swiglu, those of the gate, and as many again of "
      "what it multiplies");
  b.number("dropout", dropout, 0, 0.99, "dropout probability on embeddings and sub-layer outputs");
  b.number("attention_dropout", attention_dropout, 0, 0.99, "dropout probability on attention weights");
  b.number("activation_dropout", activation_dropout, 0, 0.99, "dropout probability after the feed-forward activation");
  b.choice(
      "activation", activation,
      {{"relu", Activation::relu},
       {"swish", Activation::swish},
       {"gelu", Activation::gelu},
       {"swiglu", Activation::swiglu}},
      "feed-forward activation; swish: x sigmoid(x); gelu: x Phi(x), exact; both need more memory and time; swiglu: "
      "swish of a gate times a second product of the same size (Shazeer 2020), so 2/3 of inner keeps the number of "
      "weights");
  b.choice("norm", norm, {{"pre", NormPosition::pre}, {"post", NormPosition::post}},
           "normalisation before each sub-layer (pre) or after its residual sum (post)");
  b.choice(
      "norm_kind", norm_kind, {{"layer", NormKind::layer}, {"rms", NormKind::rms}},
      "layer: by mean and variance, with gain and bias (Ba et al. 2016); rms: by the root mean square, with a gain "
      "(Zhang and Sennrich 2019)");
  b.number("norm_epsilon", norm_epsilon, 1e-12, 0.1, "added to the variance or the mean square in each normalisation");
  b.choice("positions", positions,
           {{"sinusoid", Positions::sinusoid}, {"marian", Positions::marian}, {"rotary", Positions::rotary}},
           "sinusoids added to the embeddings, of frequencies 10000^(-2i/width) (sinusoid; Vaswani et al. 2017) or "
           "10000^(-2i/(width - 2)) (marian); or queries and keys of self-attention turned by angles of frequencies "
           "10000^(-2i/d), d = width / heads, in the planes of the features i and i + d/2 of a head (rotary; Su et al. "
           "2021)");
  b.choice("decoder_start", decoder_start, {{"bos", DecoderStart::bos}, {"zero", DecoderStart::zero}},
           "the decoder's input before the first target token: bos: the embedding of <s>; zero: a vector of zeros, "
           "as in Marian and Bergamot");
  b.choice("tied_embeddings", tied_embeddings,
           {{"all", TiedEmbeddings::all}, {"decoder", TiedEmbeddings::decoder}, {"none", TiedEmbeddings::none}},
           "embeddings that share one table; all: source, target and output; decoder: target and output; none: three "
           "tables");
  b.flag("attention_bias", attention_bias, "add biases to the attention projections (Vaswani et al. 2017 use none)");
  b.flag("output_bias", output_bias, "add a bias to the output projection");
  b.choice("initialization", initialization,
           {{"glorot", Initialization::glorot}, {"depth_scaled", Initialization::depth_scaled}},
           "bounds of the initial weights of layers: glorot: sqrt(6 / (in + out)); depth_scaled: the same over sqrt(l) "
           "in the l-th layer of encoder or decoder (Zhang et al. 2019), for deep stacks");
}

const Choices<Positions>& position_spacings() {
  static const Choices<Positions> all = {{"sinusoid", Positions::sinusoid}, {"marian", Positions::marian}};
  return all;
}

void ModelConfig::check() const {
  if (width % heads != 0)
    throw ConfigError("model.heads", fmt::format("model.heads: {} does not divide model.width {}", heads, width));
  if (width % 2 != 0)
    throw ConfigError("model.width", fmt::format("model.width: {} is odd; sinusoidal positions need pairs", width));
  if (positions == Positions::rotary && width / heads % 2 != 0) {
    throw ConfigError("model.heads",
                      fmt::format("model.heads: {} heads of model.width {} are {} wide; model.positions: "
                                  "rotary needs pairs",
                                  heads, width, width / heads));
  }
  if (positions == Positions::marian && width < 4) {
    throw ConfigError("model.width",
                      fmt::format("model.width: {} is below 4, which model.positions: marian needs", width));
  }
  if (decoder_start == DecoderStart::zero && encoder_layers == 0) {
    throw ConfigError("model.decoder_start", "model.decoder_start: zero is for translation; a language model has none");
  }
}

EmbeddingOptions ModelConfig::source_embedding() const {
  return {.dropout = static_cast<float>(dropout),
          .divisor = position_divisor(),
          .sinusoids = positions != Positions::rotary};
}

EmbeddingOptions ModelConfig::target_embedding() const {
  EmbeddingOptions options = source_embedding();
  options.zero_start = decoder_start == DecoderStart::zero;
  return options;
}

LayerOptions ModelConfig::layer_options(std::size_t index) const {
  const bool scaled = initialization == Initialization::depth_scaled;
  return {.attention = {.width = width,
                        .heads = heads,
                        .dropout = static_cast<float>(attention_dropout),
                        .bias = attention_bias,
                        .rotary = positions == Positions::rotary,
                        .weight_scale = scaled ? 1 / std::sqrt(static_cast<float>(index + 1)) : 1},
          .inner = inner,
          .activation = activation,
          .norm = norm,
          .norm_options = {.kind = norm_kind, .epsilon = static_cast<float>(norm_epsilon)},
          .dropout = static_cast<float>(dropout),
          .activation_dropout = static_cast<float>(activation_dropout)};
}

namespace {

ModelConfig encoder_decoder(int layers, std::int64_t width, int heads, std::int64_t inner, double dropout) {
  ModelConfig config;
  config.encoder_layers = config.decoder_layers = layers;
  config.width = width;
  config.heads = heads;
  config.inner = inner;
  config.dropout = dropout;
  return config;
}

ModelConfig modern(int encoder_layers, std::int64_t width, int heads, std::int64_t inner, double dropout) {
  ModelConfig config = with_modern_layers(encoder_decoder(encoder_layers, width, heads, inner, dropout));
  config.decoder_layers = 2;
  return config;
}

ModelConfig decoder_only(int layers, std::int64_t width, int heads) {
  ModelConfig config = encoder_decoder(layers, width, heads, 4 * width, 0);
  config.encoder_layers = 0;
  return config;
}

}  // namespace

ModelConfig with_modern_layers(ModelConfig config) {
  config.activation = Activation::swiglu;
  config.norm_kind = NormKind::rms;
  config.positions = Positions::rotary;
  config.initialization = Initialization::depth_scaled;
  return config;
}

const std::vector<std::string>& model_presets() {
  static const std::vector<std::string> names = {
      "transformer-tiny", "transformer-base", "transformer-big", "modern-tiny", "modern-base", "modern-big",
      "lm-288",           "gpt2-small",       "gpt2-medium",     "gpt2-large",  "gpt2-xl"};
  return names;
}

ModelConfig model_preset(const std::string& name) {
  if (name == "transformer-tiny") return encoder_decoder(4, 128, 4, 256, 0.3);
  if (name == "transformer-base") return {};
  if (name == "transformer-big") return encoder_decoder(6, 1024, 16, 4096, 0.3);
  if (name == "modern-tiny") return modern(6, 128, 4, 208, 0.3);
  if (name == "modern-base") return modern(12, 512, 8, 1280, 0.1);
  if (name == "modern-big") return modern(12, 1024, 16, 2560, 0.3);
  if (name == "lm-288") return decoder_only(12, 288, 12);
  if (name == "gpt2-small") return decoder_only(12, 768, 12);
  if (name == "gpt2-medium") return decoder_only(24, 1024, 16);
  if (name == "gpt2-large") return decoder_only(36, 1280, 20);
  if (name == "gpt2-xl") return decoder_only(48, 1600, 25);
  throw ConfigError("preset", fmt::format("preset: '{}' is unknown; known are {}{}", name,
                                          fmt::join(model_presets(), ", "), did_you_mean(name, model_presets())));
}

}  // namespace babelring
