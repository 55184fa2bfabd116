#include "nmt/layers/attention.h"

#include <cmath>

namespace babelring {

namespace {

/// Glorot bounds of three separate [width, width] matrices, for the fused [3 width, width] matrix.
Initializer fused_glorot(std::int64_t width) {
  return Initializer::glorot(width, width, 1 / std::sqrt(2.0f));
}

}  // namespace

float attention_scale(const AttentionOptions& options) {
  return 1 / std::sqrt(static_cast<float>(options.width) / static_cast<float>(options.heads));
}

SelfAttention::SelfAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options,
                             bool causal, std::uint64_t site)
    : options_(options),
      qkv_(store, name + ".qkv", options.width, 3 * options.width, options.bias, fused_glorot(options.width)),
      output_(store, name + ".output", options.width, options.width, options.bias,
              Initializer::glorot(options.width, options.width)),
      causal_(causal),
      site_(site) {}

Tensor SelfAttention::forward(Context& context, ConstTensor x, const Sequences& sequences, Saved& saved) const {
  const std::int64_t width = options_.width;
  saved = {.x = x,
           .qkv = qkv_.forward(context, context.saved, x),
           .out = context.saved.make(x.shape, context.dtype),
           .log_sum_exp = context.saved.make(Shape{x.rows(), options_.heads}, DType::f32),
           .offsets = sequences.offsets,
           .dropout = context.dropout_key(site_, sequences.first_row, options_.dropout)};
  context.backend.run(AttentionForward{.q = saved.qkv.column_slice(0, width),
                                       .k = saved.qkv.column_slice(width, width),
                                       .v = saved.qkv.column_slice(2 * width, width),
                                       .q_offsets = saved.offsets,
                                       .k_offsets = saved.offsets,
                                       .heads = options_.heads,
                                       .causal = causal_,
                                       .scale = attention_scale(options_),
                                       .key = saved.dropout,
                                       .out = saved.out,
                                       .log_sum_exp = saved.log_sum_exp});
  return output_.forward(context, context.scratch, saved.out);
}

void SelfAttention::backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const {
  const Arena::Scope scope(context.scratch);
  const std::int64_t width = options_.width;
  Tensor dout = context.scratch.make(saved.out.shape, context.dtype);
  output_.backward(context, dy, saved.out, dout);
  Tensor dqkv = context.scratch.make(saved.qkv.shape, context.dtype);
  context.backend.run(AttentionBackward{.dout = dout,
                                        .out = saved.out,
                                        .q = saved.qkv.column_slice(0, width),
                                        .k = saved.qkv.column_slice(width, width),
                                        .v = saved.qkv.column_slice(2 * width, width),
                                        .q_offsets = saved.offsets,
                                        .k_offsets = saved.offsets,
                                        .log_sum_exp = saved.log_sum_exp,
                                        .heads = options_.heads,
                                        .causal = causal_,
                                        .scale = attention_scale(options_),
                                        .key = saved.dropout,
                                        .dq = dqkv.column_slice(0, width),
                                        .dk = dqkv.column_slice(width, width),
                                        .dv = dqkv.column_slice(2 * width, width)});
  qkv_.backward(context, dqkv, saved.x, dx, accumulate);
}

CrossAttention::CrossAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options,
                               std::uint64_t site)
    : options_(options),
      query_(store, name + ".query", options.width, options.width, options.bias,
             Initializer::glorot(options.width, options.width, 1 / std::sqrt(2.0f))),
      key_value_(store, name + ".key_value", options.width, 2 * options.width, options.bias,
                 fused_glorot(options.width)),
      output_(store, name + ".output", options.width, options.width, options.bias,
              Initializer::glorot(options.width, options.width)),
      site_(site) {}

Tensor CrossAttention::forward(Context& context, ConstTensor x, const Sequences& sequences, ConstTensor memory,
                               const Sequences& memory_sequences, Saved& saved, ConstTensor kv) const {
  const std::int64_t width = options_.width;
  const Tensor q = query_.forward(context, context.saved, x);
  saved = {.x = x,
           .memory = memory,
           .kv = kv ? kv : key_value_.forward(context, context.saved, memory),
           .q = q,
           .out = context.saved.make(x.shape, context.dtype),
           .log_sum_exp = context.saved.make(Shape{x.rows(), options_.heads}, DType::f32),
           .offsets = sequences.offsets,
           .memory_offsets = memory_sequences.offsets,
           .dropout = context.dropout_key(site_, sequences.first_row, options_.dropout)};
  context.backend.run(AttentionForward{.q = saved.q,
                                       .k = saved.kv.column_slice(0, width),
                                       .v = saved.kv.column_slice(width, width),
                                       .q_offsets = saved.offsets,
                                       .k_offsets = saved.memory_offsets,
                                       .heads = options_.heads,
                                       .causal = false,
                                       .scale = attention_scale(options_),
                                       .key = saved.dropout,
                                       .out = saved.out,
                                       .log_sum_exp = saved.log_sum_exp});
  return output_.forward(context, context.scratch, saved.out);
}

void CrossAttention::backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, Tensor dmemory,
                              bool accumulate, Tensor dkv) const {
  const Arena::Scope scope(context.scratch);
  const std::int64_t width = options_.width;
  Tensor dout = context.scratch.make(saved.out.shape, context.dtype);
  output_.backward(context, dy, saved.out, dout);
  Tensor dq = context.scratch.make(saved.q.shape, context.dtype);
  const bool joined = static_cast<bool>(dkv);
  if (!joined) dkv = context.scratch.make(saved.kv.shape, context.dtype);
  context.backend.run(AttentionBackward{.dout = dout,
                                        .out = saved.out,
                                        .q = saved.q,
                                        .k = saved.kv.column_slice(0, width),
                                        .v = saved.kv.column_slice(width, width),
                                        .q_offsets = saved.offsets,
                                        .k_offsets = saved.memory_offsets,
                                        .log_sum_exp = saved.log_sum_exp,
                                        .heads = options_.heads,
                                        .causal = false,
                                        .scale = attention_scale(options_),
                                        .key = saved.dropout,
                                        .dq = dq,
                                        .dk = dkv.column_slice(0, width),
                                        .dv = dkv.column_slice(width, width)});
  if (joined) {
    key_value_.backward_parameters(context, dkv, saved.memory);
  } else {
    key_value_.backward(context, dkv, saved.memory, dmemory, true);
  }
  query_.backward(context, dq, saved.x, dx, accumulate);
}

}  // namespace babelring
