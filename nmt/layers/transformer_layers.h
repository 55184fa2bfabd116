#pragma once

#include <string>

#include "nmt/layers/attention.h"
#include "nmt/layers/linear.h"
#include "nmt/layers/residual_block.h"

namespace babelring {

/// Options of encoder and decoder layers.
struct LayerOptions {
  AttentionOptions attention;
  std::int64_t inner = 0;  // hidden features of the feed-forward block
  Activation activation = Activation::relu;
  NormPosition norm = NormPosition::pre;
  NormOptions norm_options;
  float dropout = 0;             // dropout probability on sub-layer outputs
  float activation_dropout = 0;  // dropout probability after the feed-forward activation
  bool causal = false;           // of encoder layers: a token attends only to itself and to earlier tokens
};

/// y = W2 dropout(act(z)) + b2, z = W1 x + b1.  Source: Vaswani et al. 2017, eq. 2, with ReLU. With swiglu, W1 is
/// [2 inner, width]: the first half of z is the gate, the second what it multiplies.  Source: Shazeer 2020.
class FeedForward {
 public:
  struct Saved {
    ConstTensor x;
    Tensor z;       // absent with ReLU, whose backward needs only `hidden`
    Tensor hidden;  // after activation and dropout
    DropoutKey dropout;
  };
  FeedForward(ParameterStore& store, const std::string& name, const LayerOptions& options, std::uint64_t site);

  /// x [tokens, width] → [tokens, width] in context.scratch.
  Tensor forward(Context& context, ConstTensor x, std::int64_t first_row, Saved& saved) const;
  /// Writes dx, or adds to it with `accumulate`. dx may alias d.dy, which is read before dx is written.
  void backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx,
                bool accumulate = false) const;

  /// The layer that computes y.
  const Linear& output() const { return second_; }

 private:
  /// The second half of the columns of z or its gradient with swiglu, else null.
  Tensor up(Tensor z) const { return gated() ? z.column_slice(inner_, inner_) : Tensor(); }
  bool gated() const { return activation_ == Activation::swiglu; }

  std::int64_t inner_;
  Activation activation_;
  Linear first_, second_;
  float dropout_;
  std::uint64_t site_;
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
  /// One decoding step of a causal layer: x [rows, width] → [rows, width] in context.saved. `positions`: see
  /// SelfAttention::step(). Inference only: context.training must be false.
  Tensor step(Context& context, ConstTensor x, ConstTensor positions, const SelfAttention::StepInput& input) const;

 private:
  std::string name_;
  ResidualBlock attention_block_;
  SelfAttention attention_;
  ResidualBlock feed_forward_block_;
  FeedForward feed_forward_;
};

/// Causal self-attention, cross-attention to the encoder output and feed-forward, each in a residual block.
/// Source: Vaswani et al. 2017, 3.1.
class DecoderLayer {
 public:
  struct Saved {
    ResidualBlock::Saved self_block, cross_block, feed_forward_block;
    SelfAttention::Saved self;
    CrossAttention::Saved cross;
    FeedForward::Saved feed_forward;
  };
  /// Uses dropout sites [first_site, first_site + sites).
  DecoderLayer(ParameterStore& store, const std::string& name, const LayerOptions& options, std::uint64_t first_site);
  static constexpr std::uint64_t sites = 6;

  /// x [target tokens, width], memory [source tokens, width] → [target tokens, width] in context.saved. `kv` [source
  /// tokens, 2 width] is the precomputed key_value() projection of `memory`; if null, it is computed here.
  Tensor forward(Context& context, ConstTensor x, const Sequences& target, ConstTensor memory, const Sequences& source,
                 Saved& saved, ConstTensor kv = {}) const;
  /// Replaces dy in `d` by dx and adds to dmemory. With `dkv`, writes the gradient of `kv` to it and leaves dmemory to
  /// the caller.
  void backward(Context& context, Tensor d, const Saved& saved, Tensor dmemory, Tensor dkv = {}) const;

  /// Keys and values of the encoder output, [source tokens, 2 width] in `arena`. Decoding computes them once per batch.
  Tensor project_memory(Context& context, Arena& arena, ConstTensor memory) const;
  const Linear& key_value() const { return cross_.key_value(); }

  /// The state of one decoding step for `rows` hypotheses. The i32 lists are in host memory.
  struct StepInput {
    SelfAttention::StepInput self;
    ConstTensor memory;                      // [source tokens, 2 width] from project_memory()
    ConstTensor memory_begin, memory_count;  // [rows] i32: range of the hypothesis's source tokens in `memory`
    Tensor queries;  // [rows, width], may be strided: receives the queries to the memory; null if nobody needs them
  };
  /// x [rows, width] → [rows, width] in context.saved. `positions`: see SelfAttention::step(). Inference only:
  /// context.training must be false.
  Tensor step(Context& context, ConstTensor x, ConstTensor positions, const StepInput& input) const;

 private:
  Tensor attend_memory(Context& context, ConstTensor x, const StepInput& input) const;

  std::string name_;
  AttentionOptions attention_options_;
  ResidualBlock self_block_;
  SelfAttention self_;
  ResidualBlock cross_block_;
  CrossAttention cross_;
  ResidualBlock feed_forward_block_;
  FeedForward feed_forward_;
};

}  // namespace babelring
