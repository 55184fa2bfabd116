#include "nmt/layers/attention.h"

#include <cmath>

#include "nmt/ops/attention.h"
#include "nmt/ops/embedding.h"

namespace babelring {

namespace {

/// Glorot bounds of three separate [width, width] matrices, for the fused [3 width, width] matrix.
Initializer fused_glorot(const AttentionOptions& options) {
  return Initializer::glorot(options.width, options.width, options.weight_scale / std::sqrt(2.0f));
}
Initializer output_glorot(const AttentionOptions& options) {
  return Initializer::glorot(options.width, options.width, options.weight_scale);
}

/// Computes the attention of saved.q to saved.k and saved.v, and sets saved.out and saved.log_sum_exp.
void attend(Context& context, const AttentionOptions& options, AttentionHeads& saved) {
  saved.out = context.saved.make(saved.q.shape, context.dtype);
  saved.log_sum_exp = context.saved.make(Shape{saved.q.rows(), options.heads}, DType::f32);
  context.backend.run(AttentionForward{.q = saved.q,
                                       .k = saved.k,
                                       .v = saved.v,
                                       .q_offsets = saved.q_offsets,
                                       .k_offsets = saved.k_offsets,
                                       .heads = options.heads,
                                       .causal = saved.causal,
                                       .scale = attention_scale(options),
                                       .key = saved.dropout,
                                       .out = saved.out,
                                       .log_sum_exp = saved.log_sum_exp});
}

struct AttentionGradients {
  Tensor q, k, v;
};

/// Overwrites `d` with the gradients, given that of saved.out.
void attend_backward(Context& context, const AttentionOptions& options, const AttentionHeads& saved, ConstTensor dout,
                     const AttentionGradients& d) {
  context.backend.run(AttentionBackward{.dout = dout,
                                        .out = saved.out,
                                        .q = saved.q,
                                        .k = saved.k,
                                        .v = saved.v,
                                        .q_offsets = saved.q_offsets,
                                        .k_offsets = saved.k_offsets,
                                        .log_sum_exp = saved.log_sum_exp,
                                        .heads = options.heads,
                                        .causal = saved.causal,
                                        .scale = attention_scale(options),
                                        .key = saved.dropout,
                                        .dq = d.q,
                                        .dk = d.k,
                                        .dv = d.v});
}

/// Writes the guide's loss and adds its gradients to `d`.
void guide_backward(Context& context, const AttentionOptions& options, const AttentionHeads& saved,
                    const AttentionGuide& guide, const AttentionGradients& d) {
  context.backend.run(GuidedAttention{.q = saved.q,
                                      .k = saved.k,
                                      .q_offsets = saved.q_offsets,
                                      .k_offsets = saved.k_offsets,
                                      .link_offsets = guide.link_offsets,
                                      .links = guide.links,
                                      .log_sum_exp = saved.log_sum_exp,
                                      .heads = options.heads,
                                      .head = guide.head,
                                      .scale = attention_scale(options),
                                      .gradient_scale = guide.gradient_scale,
                                      .dq = d.q,
                                      .dk = d.k,
                                      .loss = guide.loss});
}

}  // namespace

float attention_scale(const AttentionOptions& options) {
  return 1 / std::sqrt(static_cast<float>(options.width) / static_cast<float>(options.heads));
}

SelfAttention::SelfAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options,
                             bool causal, std::uint64_t site)
    : options_(options),
      qkv_(store, name + ".qkv", options.width, 3 * options.width, options.bias, fused_glorot(options)),
      output_(store, name + ".output", options.width, options.width, options.bias, output_glorot(options)),
      causal_(causal),
      site_(site) {}

/// Turns heads side by side by their rows' positions, in place, or back.
void SelfAttention::turn(Context& context, Tensor heads, ConstTensor positions, bool inverse) const {
  const std::int64_t head_width = options_.width / options_.heads;
  context.backend.run(RotaryPositions{.x = heads,
                                      .positions = positions,
                                      .y = heads,
                                      .heads = static_cast<int>(heads.columns() / head_width),
                                      .inverse = inverse});
}

Tensor SelfAttention::forward(Context& context, ConstTensor x, const Sequences& sequences, Saved& saved) const {
  const std::int64_t width = options_.width;
  saved.x = x;
  saved.positions = sequences.positions;
  saved.qkv = qkv_.forward(context, context.saved, x);
  if (options_.rotary) turn(context, saved.qkv.column_slice(0, 2 * width), saved.positions);
  saved.heads = {.q = saved.qkv.column_slice(0, width),
                 .k = saved.qkv.column_slice(width, width),
                 .v = saved.qkv.column_slice(2 * width, width),
                 .q_offsets = sequences.offsets,
                 .k_offsets = sequences.offsets,
                 .causal = causal_,
                 .dropout = context.dropout_key(site_, sequences.first_row, options_.dropout)};
  attend(context, options_, saved.heads);
  return output_.forward(context, context.scratch, saved.heads.out);
}

void SelfAttention::backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx,
                             bool accumulate) const {
  const Arena::Scope scope(context.scratch);
  const std::int64_t width = options_.width;
  const Tensor dout = context.scratch.make(saved.heads.out.shape, context.dtype);
  output_.backward(context, d, saved.heads.out, dout);
  const Tensor dqkv = context.scratch.make(saved.qkv.shape, context.dtype);
  attend_backward(context, options_, saved.heads, dout,
                  {.q = dqkv.column_slice(0, width),
                   .k = dqkv.column_slice(width, width),
                   .v = dqkv.column_slice(2 * width, width)});
  if (options_.rotary) turn(context, dqkv.column_slice(0, 2 * width), saved.positions, true);
  qkv_.backward(context, dqkv, saved.x, dx, accumulate);
}

Tensor SelfAttention::step(Context& context, ConstTensor x, ConstTensor positions, const StepInput& input) const {
  const std::int64_t width = options_.width;
  const std::int64_t capacity = input.cache.columns() / (2 * width);
  const Tensor q = context.scratch.make(x.shape, context.dtype);
  qkv_.forward_rows(context, x, 0, q);
  const Tensor new_rows = input.cache.row_slice(0, x.rows()).column_slice(input.position * 2 * width, 2 * width);
  qkv_.forward_rows(context, x, width, new_rows);
  if (options_.rotary) {
    turn(context, q, positions);
    turn(context, new_rows.column_slice(0, width), positions);
  }

  const ConstTensor cached(input.cache.data, Shape{input.cache.rows() * capacity, 2 * width}, input.cache.dtype);
  Tensor out = context.scratch.make(x.shape, context.dtype);
  context.backend.run(DecodeAttention{.q = q,
                                      .keys = cached.column_slice(0, width),
                                      .values = cached.column_slice(width, width),
                                      .key_rows = input.rows,
                                      .key_count = input.count,
                                      .heads = options_.heads,
                                      .scale = attention_scale(options_),
                                      .out = out});
  return output_.forward(context, context.scratch, out);
}

CrossAttention::CrossAttention(ParameterStore& store, const std::string& name, const AttentionOptions& options,
                               std::uint64_t site)
    : options_(options),
      query_(store, name + ".query", options.width, options.width, options.bias, fused_glorot(options)),
      key_value_(store, name + ".key_value", options.width, 2 * options.width, options.bias, fused_glorot(options)),
      output_(store, name + ".output", options.width, options.width, options.bias, output_glorot(options)),
      site_(site) {}

Tensor CrossAttention::forward(Context& context, ConstTensor x, const Sequences& sequences, ConstTensor memory,
                               const Sequences& memory_sequences, Saved& saved, ConstTensor kv) const {
  const std::int64_t width = options_.width;
  saved.x = x;
  saved.memory = memory;
  const Tensor q = query_.forward(context, context.saved, x);
  saved.kv = kv ? kv : key_value_.forward(context, context.saved, memory);
  saved.heads = {.q = q,
                 .k = saved.kv.column_slice(0, width),
                 .v = saved.kv.column_slice(width, width),
                 .q_offsets = sequences.offsets,
                 .k_offsets = memory_sequences.offsets,
                 .dropout = context.dropout_key(site_, sequences.first_row, options_.dropout)};
  attend(context, options_, saved.heads);
  return output_.forward(context, context.scratch, saved.heads.out);
}

void CrossAttention::backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx, Tensor dmemory,
                              bool accumulate, Tensor dkv) const {
  const Arena::Scope scope(context.scratch);
  const std::int64_t width = options_.width;
  const Tensor dout = context.scratch.make(saved.heads.out.shape, context.dtype);
  output_.backward(context, d, saved.heads.out, dout);
  const Tensor dq = context.scratch.make(saved.heads.q.shape, context.dtype);
  const bool joined = static_cast<bool>(dkv);
  if (!joined) dkv = context.scratch.make(saved.kv.shape, context.dtype);
  const AttentionGradients d_heads = {.q = dq, .k = dkv.column_slice(0, width), .v = dkv.column_slice(width, width)};
  attend_backward(context, options_, saved.heads, dout, d_heads);
  if (saved.guide) guide_backward(context, options_, saved.heads, *saved.guide, d_heads);
  if (joined) {
    key_value_.backward_parameters(context, dkv, saved.memory);
  } else {
    key_value_.backward(context, dkv, saved.memory, dmemory, true);
  }
  query_.backward(context, dq, saved.x, dx, accumulate);
}

}  // namespace babelring
