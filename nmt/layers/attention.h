#pragma once

#include <optional>
#include <string>

#include "nmt/layers/linear.h"

namespace babelring {

struct AttentionOptions {
  std::int64_t width = 0;
  int heads = 1;
  float dropout = 0;       // dropout probability on attention weights
  bool bias = false;       // biases in the four projections; Vaswani et al. 2017 use none
  bool rotary = false;     // self-attention turns queries and keys by their positions, see RotaryPositions
  float weight_scale = 1;  // of the initial weights
};

/// Values of attention, between the projections, that backward reads.
struct AttentionHeads {
  ConstTensor q, k, v;               // [query tokens, width], [key tokens, width] twice
  ConstTensor q_offsets, k_offsets;  // of the sentences
  bool causal = false;
  DropoutKey dropout;
  Tensor out, log_sum_exp;  // [query tokens, width], [query tokens, heads] f32
};

/// Multi-head self-attention. One fused projection computes queries, keys and values.
class SelfAttention {
 public:
  struct Saved {
    ConstTensor x, positions;
    Tensor qkv;  // queries and keys as turned by rotary positions
    AttentionHeads heads;
  };
  SelfAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options, bool causal,
                std::uint64_t site);

  /// x [tokens, width] → [tokens, width] in context.scratch.
  Tensor forward(Context& context, ConstTensor x, const Sequences& sequences, Saved& saved) const;
  /// Writes dx, or adds to it with `accumulate`. dx may alias d.dy, which is read before dx is written.
  void backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx,
                bool accumulate = false) const;

  /// The state of one decoding step for `rows` hypotheses. The i32 lists are in host memory.
  struct StepInput {
    Tensor cache;               // [rows or more, capacity * 2 width]: key and value of each position, interleaved
    std::int64_t position = 0;  // of the new token, equal for all rows; step() writes its key and value to the cache
    // [rows, position + 1] i32: for each hypothesis, where the cache holds its tokens. Token j that was written by row
    // r has index r * capacity + j. A hypothesis that extends another row's refers to that row, so nothing is copied.
    ConstTensor rows;
    ConstTensor count;  // [rows] i32: position + 1
  };
  /// x [rows, width] → [rows, width] in context.scratch. `positions` [rows] i32: input.position in the backend's
  /// memory. Inference only.
  Tensor step(Context& context, ConstTensor x, ConstTensor positions, const StepInput& input) const;

  const Linear& output() const { return output_; }

 private:
  void turn(Context& context, Tensor heads, ConstTensor positions, bool inverse = false) const;

  AttentionOptions options_;
  Linear qkv_, output_;
  bool causal_;
  std::uint64_t site_;
};

/// A loss on one head's attention, see GuidedAttention.
struct AttentionGuide {
  ConstTensor link_offsets, links;  // in host memory
  int head = 0;
  float gradient_scale = 1;
  Tensor loss;  // [query tokens] f32
};

/// Multi-head attention from target tokens to the encoder output ("memory").
class CrossAttention {
 public:
  struct Saved {
    ConstTensor x, memory, kv;
    AttentionHeads heads;
    std::optional<AttentionGuide> guide;  // given to backward, which writes its loss
  };
  CrossAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options, std::uint64_t site);

  /// x [target tokens, width] → [target tokens, width] in context.scratch. `kv` [memory tokens, 2 width] is the
  /// precomputed key_value() projection of `memory`; if null, it is computed here.
  Tensor forward(Context& context, ConstTensor x, const Sequences& sequences, ConstTensor memory,
                 const Sequences& memory_sequences, Saved& saved, ConstTensor kv = {}) const;
  /// Writes dx, or adds to it with `accumulate`; dx may alias d.dy. Adds to dmemory [memory tokens, width]. With `dkv`
  /// [memory tokens, 2 width], writes the gradient of `kv` to it and leaves dmemory to the caller.
  void backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx, Tensor dmemory,
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
