#pragma once

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

/// Frequencies of sinusoidal positions: 10000^(-2i/width) (Vaswani et al. 2017, 3.5), or 10000^(-2i/(width - 2)), as
/// Marian computes them (src/tensors/cpu/tensor_operators.cpp, SinusoidalPositionEmbeddings).
enum class PositionSpacing { sinusoid, marian };
const Choices<PositionSpacing>& position_spacings();

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
  double norm_epsilon = 1e-5;
  PositionSpacing positions = PositionSpacing::sinusoid;
  DecoderStart decoder_start = DecoderStart::bos;
  bool output_bias = false;
  TiedEmbeddings tied_embeddings = TiedEmbeddings::all;
  bool attention_bias = false;

  void bind(OptionBinder& binder);
  /// Throws ConfigError if width is odd or not a multiple of heads, or an option is not for this kind of model.
  void check() const;
  LayerOptions layer_options() const;
  /// EmbeddingForward's divisor of positions.
  std::int64_t position_divisor() const { return positions == PositionSpacing::marian ? width - 2 : width; }
  EmbeddingOptions source_embedding() const;
  EmbeddingOptions target_embedding() const;
};

/// Names of the presets.
const std::vector<std::string>& model_presets();

/// transformer-tiny (4+4 layers, width 128, 4 heads, inner 256, dropout 0.3; Wu et al. 2021), transformer-base
/// (6+6, 512, 8, 2048, 0.1) or transformer-big (6+6, 1024, 16, 4096, 0.3; Vaswani et al. 2017, table 3). Of language
/// models without dropout: lm-288 (12 layers, width 288, 12 heads, inner 1152), and in the shapes of Radford et al.
/// 2019 gpt2-small (12, 768, 12), gpt2-medium (24, 1024, 16), gpt2-large (36, 1280, 20) and gpt2-xl (48, 1600, 25) with
/// an inner width of four times the width. Throws ConfigError that lists the known presets for any other name.
ModelConfig model_preset(const std::string& name);

}  // namespace babelring
