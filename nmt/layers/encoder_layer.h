#pragma once

#include <string>

#include "nmt/layers/attention.h"
#include "nmt/layers/feed_forward.h"
#include "nmt/layers/residual_block.h"

namespace babelring {

/// What encoder and decoder layers share.
struct LayerOptions {
  AttentionOptions attention;
  std::int64_t inner = 0;  // width of the feed-forward's hidden layer
  NormPlace norm = NormPlace::pre;
  float dropout = 0;             // of sub-layer outputs
  float activation_dropout = 0;  // after the feed-forward's ReLU
};

/// Self-attention, then feed-forward, each in a residual block.  Source: Vaswani et al. 2017, 3.1.
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
  /// `d` holds dy and becomes dx.
  void backward(Context& context, Tensor d, const Saved& saved) const;

 private:
  std::string name_;
  ResidualBlock attention_block_;
  SelfAttention attention_;
  ResidualBlock feed_forward_block_;
  FeedForward feed_forward_;
};

}  // namespace babelring
