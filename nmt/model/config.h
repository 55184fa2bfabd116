#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/options/options.h"
#include "nmt/layers/residual_block.h"

namespace babelring {

struct EmbeddingOptions;
struct LayerOptions;

/// Embeddings with one table.
enum class TiedEmbeddings {
  all,      // source, target and output
  decoder,  // target and output
  none,     // three tables
};

/// How a token's position reaches the model: sinusoids added to the embeddings, of frequencies 10000^(-2i/width)
/// (Vaswani et al. 2017, 3.5) or 10000^(-2i/(width - 2)), as Marian computes them
/// (src/tensors/cpu/tensor_operators.cpp, SinusoidalPositionEmbeddings); or rotary positions in self-attention
/// (RotaryPositions).
enum class Positions { sinusoid, marian, rotary };
/// The kinds of sinusoids.
const Choices<Positions>& position_spacings();

/// Bounds of the initial weights of layers: Glorot's, or those divided by the root of the layer's depth, from 1, in its
/// stack (Zhang, Titov and Sennrich 2019, "Improving Deep Transformer with Depth-Scaled Initialization and Merged
/// Attention", with alpha 1).
enum class Initialization { glorot, depth_scaled };

/// The decoder's input before the first target token: the vector of <s>, or zeros.
enum class DecoderStart { bos, zero };

/// Architecture of an encoder-decoder Transformer or, with encoder_layers 0, of a LanguageModel. bind() documents each
/// member.
/// The layer of a decoder of `layers` whose attention aligns a translation with its source: the one before the last.
/// Source: Garg et al. 2019, "Jointly Learning to Align and Translate with Transformer Models", 4.1. Of two layers it
/// is the last, as the first has seen too little.
constexpr int alignment_layer(int layers) {
  return layers > 2 ? layers - 2 : layers - 1;
}

struct ModelConfig {
  int encoder_layers = 6;
  int decoder_layers = 6;
  std::int64_t width = 512;
  int heads = 8;
  std::int64_t inner = 2048;
  double dropout = 0.1;
  double attention_dropout = 0;
  double activation_dropout = 0;
  Activation activation = Activation::relu;
  NormPosition norm = NormPosition::pre;
  NormKind norm_kind = NormKind::layer;
  double norm_epsilon = 1e-5;
  Positions positions = Positions::sinusoid;
  DecoderStart decoder_start = DecoderStart::bos;
  bool output_bias = false;
  TiedEmbeddings tied_embeddings = TiedEmbeddings::all;
  bool attention_bias = false;
  Initialization initialization = Initialization::glorot;

  void bind(OptionBinder& binder);
  /// Throws ConfigError if width is odd or not a multiple of heads, or an option is not for this kind of model.
  void check() const;
  /// The options of the layer with `index`, from 0, in its stack.
  LayerOptions layer_options(std::size_t index) const;
  /// EmbeddingForward's divisor of sinusoidal positions.
  std::int64_t position_divisor() const { return positions == Positions::marian ? width - 2 : width; }
  EmbeddingOptions source_embedding() const;
  EmbeddingOptions target_embedding() const;
};

/// The same shape with RMS norms, SwiGLU, rotary positions and depth-scaled initial weights.
ModelConfig with_modern_layers(ModelConfig config);

/// Names of the presets.
const std::vector<std::string>& model_presets();

/// transformer-tiny (4+4 layers, width 128, 4 heads, inner 256, dropout 0.3; Wu et al. 2021), transformer-base
/// (6+6, 512, 8, 2048, 0.1) or transformer-big (6+6, 1024, 16, 4096, 0.3; Vaswani et al. 2017, table 3). modern-tiny
/// (6+2, 128, 4, 208, 0.3), modern-base (12+2, 512, 8, 1280, 0.1) and modern-big (12+2, 1024, 16, 2560, 0.3) have RMS
/// norms, SwiGLU, rotary positions and depth-scaled weights in a deep encoder and a shallow decoder (Kasai et al. 2021,
/// "Deep Encoder, Shallow Decoder"), and as many parameters as the transformer of their size to within 2 %. Of language
/// models without dropout: lm-288 (12 layers, width 288, 12 heads, inner 1152), and in the shapes of Radford et al.
/// 2019 gpt2-small (12, 768, 12), gpt2-medium (24, 1024, 16), gpt2-large (36, 1280, 20) and gpt2-xl (48, 1600, 25) with
/// an inner width of four times the width. Throws ConfigError that lists the known presets for any other name.
ModelConfig model_preset(const std::string& name);

}  // namespace babelring
