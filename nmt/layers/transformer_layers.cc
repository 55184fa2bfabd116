#include "nmt/layers/transformer_layers.h"
#include "nmt/ops/attention.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

FeedForward::FeedForward(ParameterStore& store, const std::string& name, const LayerOptions& options,
                         std::uint64_t site)
    : inner_(options.inner),
      activation_(options.activation),
      first_(store, name + ".first", options.attention.width, gated() ? 2 * inner_ : inner_, true,
             Initializer::glorot(options.attention.width, inner_, options.attention.weight_scale)),
      second_(store, name + ".second", inner_, options.attention.width, true,
              Initializer::glorot(inner_, options.attention.width, options.attention.weight_scale)),
      dropout_(options.activation_dropout),
      site_(site) {}

Tensor FeedForward::forward(Context& context, ConstTensor x, std::int64_t first_row, Saved& saved) const {
  saved = {.x = x,
           .z = {},
           .hidden = context.saved.make_rows(x.rows(), inner_, context.dtype),
           .dropout = context.dropout_key(site_, first_row, dropout_)};
  if (activation_ == Activation::relu) {
    first_.forward_relu(context, x, saved.hidden);
    if (saved.dropout.probability > 0) {
      context.backend.run(Dropout{.x = saved.hidden, .y = saved.hidden, .key = saved.dropout});
    }
  } else {
    saved.z = context.saved.make_rows(x.rows(), first_.out(), context.dtype);
    first_.forward_into(context, x, saved.z);
    context.backend.run(ActivationForward{.z = saved.z.column_slice(0, inner_),
                                          .y = saved.hidden,
                                          .activation = activation_,
                                          .key = saved.dropout,
                                          .up = up(saved.z)});
  }
  return second_.forward(context, context.scratch, saved.hidden);
}

void FeedForward::backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx,
                           bool accumulate) const {
  const Arena::Scope scope(context.scratch);
  Tensor dhidden = context.scratch.make_rows(saved.hidden.rows(), saved.hidden.columns(), context.dtype);
  Tensor dz = dhidden;
  BiasGradient of_first = BiasGradient::missing;
  if (activation_ == Activation::relu) {
    of_first = second_.backward_through_relu(context, d, saved.hidden, dhidden, saved.dropout.scale(), first_);
  } else {
    second_.backward(context, d, saved.hidden, dhidden, false);
    if (gated()) dz = context.scratch.make_rows(saved.z.rows(), saved.z.columns(), context.dtype);
    context.backend.run(ActivationBackward{.dy = dhidden,
                                           .z = saved.z.column_slice(0, inner_),
                                           .dz = dz.column_slice(0, inner_),
                                           .activation = activation_,
                                           .key = saved.dropout,
                                           .up = up(saved.z),
                                           .dup = up(dz)});
  }
  first_.backward(context, {dz, of_first}, saved.x, dx, accumulate);
}

EncoderLayer::EncoderLayer(ParameterStore& store, const std::string& name, const LayerOptions& options,
                           std::uint64_t first_site)
    : name_(name),
      attention_block_(store, name + ".attention_norm", options.attention.width, options.norm, options.norm_options,
                       options.dropout, first_site),
      attention_(store, name + ".attention", options.attention, options.causal, first_site + 1),
      feed_forward_block_(store, name + ".feed_forward_norm", options.attention.width, options.norm,
                          options.norm_options, options.dropout, first_site + 2),
      feed_forward_(store, name + ".feed_forward", options, first_site + 3) {}

Tensor EncoderLayer::forward(Context& context, ConstTensor x, const Sequences& sequences, Saved& saved) const {
  const WorkRange range(context.backend, name_);
  const std::int64_t row = sequences.first_row;
  x = attention_block_.forward(context, x, row, saved.attention_block, [&](ConstTensor h) {
    return attention_.forward(context, h, sequences, saved.attention);
  });
  return feed_forward_block_.forward(context, x, row, saved.feed_forward_block, [&](ConstTensor h) {
    return feed_forward_.forward(context, h, row, saved.feed_forward);
  });
}

void EncoderLayer::backward(Context& context, Tensor d, const Saved& saved) const {
  const WorkRange range(context.backend, name_);
  feed_forward_block_.backward(context, d, saved.feed_forward_block, feed_forward_.output(),
                               [&](const OutputGradient& dout, Tensor dx, bool add) {
                                 feed_forward_.backward(context, dout, saved.feed_forward, dx, add);
                               });
  attention_block_.backward(context, d, saved.attention_block, attention_.output(),
                            [&](const OutputGradient& dout, Tensor dx, bool add) {
                              attention_.backward(context, dout, saved.attention, dx, add);
                            });
}

Tensor EncoderLayer::step(Context& context, ConstTensor x, ConstTensor positions,
                          const SelfAttention::StepInput& input) const {
  const WorkRange range(context.backend, name_);
  Saved unused;
  x = attention_block_.forward(context, x, 0, unused.attention_block,
                               [&](ConstTensor h) { return attention_.step(context, h, positions, input); });
  return feed_forward_block_.forward(context, x, 0, unused.feed_forward_block, [&](ConstTensor h) {
    return feed_forward_.forward(context, h, 0, unused.feed_forward);
  });
}

DecoderLayer::DecoderLayer(ParameterStore& store, const std::string& name, const LayerOptions& options,
                           std::uint64_t first_site)
    : name_(name),
      attention_options_(options.attention),
      self_block_(store, name + ".self_norm", options.attention.width, options.norm, options.norm_options,
                  options.dropout, first_site),
      self_(store, name + ".self", options.attention, true, first_site + 1),
      cross_block_(store, name + ".cross_norm", options.attention.width, options.norm, options.norm_options,
                   options.dropout, first_site + 2),
      cross_(store, name + ".cross", options.attention, first_site + 3),
      feed_forward_block_(store, name + ".feed_forward_norm", options.attention.width, options.norm,
                          options.norm_options, options.dropout, first_site + 4),
      feed_forward_(store, name + ".feed_forward", options, first_site + 5) {}

Tensor DecoderLayer::forward(Context& context, ConstTensor x, const Sequences& target, ConstTensor memory,
                             const Sequences& source, Saved& saved, ConstTensor kv) const {
  const WorkRange range(context.backend, name_);
  const std::int64_t row = target.first_row;
  x = self_block_.forward(context, x, row, saved.self_block,
                          [&](ConstTensor h) { return self_.forward(context, h, target, saved.self); });
  x = cross_block_.forward(context, x, row, saved.cross_block, [&](ConstTensor h) {
    return cross_.forward(context, h, target, memory, source, saved.cross, kv);
  });
  return feed_forward_block_.forward(context, x, row, saved.feed_forward_block, [&](ConstTensor h) {
    return feed_forward_.forward(context, h, row, saved.feed_forward);
  });
}

void DecoderLayer::backward(Context& context, Tensor d, const Saved& saved, Tensor dmemory, Tensor dkv) const {
  const WorkRange range(context.backend, name_);
  feed_forward_block_.backward(context, d, saved.feed_forward_block, feed_forward_.output(),
                               [&](const OutputGradient& dout, Tensor dx, bool add) {
                                 feed_forward_.backward(context, dout, saved.feed_forward, dx, add);
                               });
  cross_block_.backward(context, d, saved.cross_block, cross_.output(),
                        [&](const OutputGradient& dout, Tensor dx, bool add) {
                          cross_.backward(context, dout, saved.cross, dx, dmemory, add, dkv);
                        });
  self_block_.backward(
      context, d, saved.self_block, self_.output(),
      [&](const OutputGradient& dout, Tensor dx, bool add) { self_.backward(context, dout, saved.self, dx, add); });
}

Tensor DecoderLayer::project_memory(Context& context, Arena& arena, ConstTensor memory) const {
  return cross_.key_value().forward(context, arena, memory);
}

Tensor DecoderLayer::step(Context& context, ConstTensor x, ConstTensor positions, const StepInput& input) const {
  const WorkRange range(context.backend, name_);
  Saved unused;
  x = self_block_.forward(context, x, 0, unused.self_block,
                          [&](ConstTensor h) { return self_.step(context, h, positions, input.self); });
  x = cross_block_.forward(context, x, 0, unused.cross_block,
                           [&](ConstTensor h) { return attend_memory(context, h, input); });
  return feed_forward_block_.forward(context, x, 0, unused.feed_forward_block, [&](ConstTensor h) {
    return feed_forward_.forward(context, h, 0, unused.feed_forward);
  });
}

Tensor DecoderLayer::attend_memory(Context& context, ConstTensor x, const StepInput& input) const {
  const std::int64_t width = attention_options_.width;
  const Tensor q = input.queries ? input.queries : context.scratch.make(x.shape, context.dtype);
  cross_.query().forward_into(context, x, q);
  Tensor out = context.scratch.make(x.shape, context.dtype);
  context.backend.run(DecodeAttention{.q = q,
                                      .keys = input.memory.column_slice(0, width),
                                      .values = input.memory.column_slice(width, width),
                                      .key_begin = input.memory_begin,
                                      .key_count = input.memory_count,
                                      .heads = attention_options_.heads,
                                      .scale = attention_scale(attention_options_),
                                      .out = out});
  return cross_.output().forward(context, context.scratch, out);
}

}  // namespace babelring
