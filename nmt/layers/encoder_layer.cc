#include "nmt/layers/encoder_layer.h"

namespace babelring {

EncoderLayer::EncoderLayer(ParameterStore& store, const std::string& name, const LayerOptions& options,
                           std::uint64_t first_site)
    : name_(name),
      attention_block_(store, name + ".attention_norm", options.attention.width, options.norm, options.dropout,
                       first_site),
      attention_(store, name + ".attention", options.attention, options.causal, first_site + 1),
      feed_forward_block_(store, name + ".feed_forward_norm", options.attention.width, options.norm, options.dropout,
                          first_site + 2),
      feed_forward_(store, name + ".feed_forward", options.attention.width, options.inner, options.activation_dropout,
                    first_site + 3) {}

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

Tensor EncoderLayer::step(Context& context, ConstTensor x, const SelfAttention::StepInput& input) const {
  const WorkRange range(context.backend, name_);
  Saved unused;
  x = attention_block_.forward(context, x, 0, unused.attention_block,
                               [&](ConstTensor h) { return attention_.step(context, h, input); });
  return feed_forward_block_.forward(context, x, 0, unused.feed_forward_block, [&](ConstTensor h) {
    return feed_forward_.forward(context, h, 0, unused.feed_forward);
  });
}

}  // namespace babelring
