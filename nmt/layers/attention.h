#pragma once

#include <string>

#include "nmt/layers/linear.h"

namespace babelring {

struct AttentionOptions {
  std::int64_t width = 0;
  int heads = 1;
  float dropout = 0;  // of the attention probabilities
  bool bias = false;  // of the four projections; Vaswani et al. have none
};

/// Multi-head attention of a sequence on itself: one fused projection to queries, keys and values.
class SelfAttention {
 public:
  struct Saved {
    ConstTensor x;
    Tensor qkv, out, log_sum_exp;
    ConstTensor offsets;
    DropoutKey dropout;
  };
  SelfAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options, bool causal,
                std::uint64_t site);

  /// x [tokens, width] → [tokens, width] in context.scratch.
  Tensor forward(Context& context, ConstTensor x, const Sequences& sequences, Saved& saved) const;
  /// dx is overwritten, or added to once dy has been read.
  void backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate = false) const;

  /// For decoding, one row a hypothesis: the fused projection of new rows, and the output projection.
  const Linear& qkv() const { return qkv_; }
  const Linear& output() const { return output_; }

 private:
  AttentionOptions options_;
  Linear qkv_, output_;
  bool causal_;
  std::uint64_t site_;
};

/// Multi-head attention of target tokens on the encoder's output.
class CrossAttention {
 public:
  struct Saved {
    ConstTensor x, memory, kv;
    Tensor q, out, log_sum_exp;
    ConstTensor offsets, memory_offsets;
    DropoutKey dropout;
  };
  CrossAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options, std::uint64_t site);

  /// `kv` [memory tokens, 2 width]: key_value() of the memory, if it has been computed together with others'.
  Tensor forward(Context& context, ConstTensor x, const Sequences& sequences, ConstTensor memory,
                 const Sequences& memory_sequences, Saved& saved, ConstTensor kv = {}) const;
  /// dx is overwritten, or added to once dy has been read; dmemory [memory tokens, width] is added to. With `dkv`
  /// [memory tokens, 2 width] the gradient of `kv` is written there instead, and that of the memory is left to the
  /// caller.
  void backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, Tensor dmemory,
                bool accumulate = false, Tensor dkv = {}) const;

  const Linear& query() const { return query_; }
  const Linear& key_value() const { return key_value_; }
  const Linear& output() const { return output_; }

 private:
  AttentionOptions options_;
  Linear query_, key_value_, output_;
  std::uint64_t site_;
};

/// 1 / sqrt(width / heads).
float attention_scale(const AttentionOptions& options);

}  // namespace babelring
