#pragma once

#include <string>

#include "nmt/layers/encoder_layer.h"

namespace babelring {

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
  };
  /// x [rows, width] → [rows, width] in context.saved. Inference only: context.training must be false.
  Tensor step(Context& context, ConstTensor x, const StepInput& input) const;

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
