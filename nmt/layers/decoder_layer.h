#pragma once

#include <string>

#include "nmt/layers/encoder_layer.h"

namespace babelring {

/// Causal self-attention, attention on the encoder's output, feed-forward, each in a residual block.
class DecoderLayer {
 public:
  struct Saved {
    ResidualBlock::Saved self_block, cross_block, feed_forward_block;
    SelfAttention::Saved self;
    CrossAttention::Saved cross;
    FeedForward::Saved feed_forward;
  };
  DecoderLayer(ParameterStore& store, const std::string& name, const LayerOptions& options, std::uint64_t first_site);
  static constexpr std::uint64_t sites = 6;

  /// x [target tokens, width], memory [source tokens, width] → [target tokens, width] in context.saved. `kv` [source
  /// tokens, 2 width]: key_value() of the memory, if it has been computed together with other layers'.
  Tensor forward(Context& context, ConstTensor x, const Sequences& target, ConstTensor memory, const Sequences& source,
                 Saved& saved, ConstTensor kv = {}) const;
  /// `d` holds dy and becomes dx; dmemory is added to. With `dkv` the gradient of `kv` is written there instead.
  void backward(Context& context, Tensor d, const Saved& saved, Tensor dmemory, Tensor dkv = {}) const;

  /// Keys and values of the encoder's output, [source tokens, 2 width], computed once a sentence for decoding.
  Tensor project_memory(Context& context, Arena& arena, ConstTensor memory) const;
  const Linear& key_value() const { return cross_.key_value(); }

  /// What one decoding step of `rows` hypotheses reads and extends.
  struct StepInput {
    Tensor cache;               // [rows or more, capacity * 2 width]: keys and values of each position side by side
    std::int64_t position = 0;  // of the new token, the same for all; its keys and values are written to the same row
    // The lists below are in the host's memory.
    // Of each row's tokens so far, [rows, position + 1] i32: token j of what was row r then is at r * capacity + j. A
    // hypothesis that goes on from another reads its past where it is.
    ConstTensor self_rows;
    ConstTensor self_count;                  // [rows] i32: position + 1
    ConstTensor memory;                      // [source tokens, 2 width] of project_memory()
    ConstTensor memory_begin, memory_count;  // [rows] i32: the source tokens of the hypothesis's sentence
  };
  /// x [rows, width] → [rows, width] in context.saved. For inference: context.training must be false.
  Tensor step(Context& context, ConstTensor x, const StepInput& input) const;

 private:
  Tensor attend_self(Context& context, ConstTensor x, const StepInput& input) const;
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
