#pragma once

#include <string>

#include "nmt/layers/attention.h"
#include "nmt/layers/feed_forward.h"
#include "nmt/layers/residual_block.h"

namespace babelring {

/// Options of encoder and decoder layers.
struct LayerOptions {
  AttentionOptions attention;
  std::int64_t inner = 0;  // hidden features of the feed-forward block
  NormPlace norm = NormPlace::pre;
  float dropout = 0;             // dropout probability on sub-layer outputs
  float activation_dropout = 0;  // dropout probability after the feed-forward ReLU
  bool causal = false;           // of encoder layers: a token attends only to itself and to earlier tokens
};

/// Self-attention and feed-forward, each in a residual block. Source: Vaswani et al. 2017, 3.1.
class EncoderLayer {
 public:
  struct Saved {
    ResidualBlock::Saved attention_block, feed_forward_block;
    SelfAttention::Saved attention;
    FeedForward::Saved feed_forward;
  };
  /// Uses dropout sites [first_site, first_site + sites).
  EncoderLayer(ParameterStore& store, const std::string& name, const LayerOptions& options, std::uint64_t first_site);
  static constexpr std::uint64_t sites = 4;

  /// x [tokens, width] → [tokens, width] in context.saved.
  Tensor forward(Context& context, ConstTensor x, const Sequences& sequences, Saved& saved) const;
  /// Replaces dy in `d` by dx.
  void backward(Context& context, Tensor d, const Saved& saved) const;
  /// One decoding step of a causal layer: x [rows, width] → [rows, width] in context.saved. Inference only:
  /// context.training must be false.
  Tensor step(Context& context, ConstTensor x, const SelfAttention::StepInput& input) const;

 private:
  std::string name_;
  ResidualBlock attention_block_;
  SelfAttention attention_;
  ResidualBlock feed_forward_block_;
  FeedForward feed_forward_;
};

}  // namespace babelring
