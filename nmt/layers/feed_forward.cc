#include "nmt/layers/feed_forward.h"

namespace babelring {

FeedForward::FeedForward(ParameterStore& store, const std::string& name, std::int64_t width, std::int64_t inner,
                         float dropout, std::uint64_t site)
    : first_(store, name + ".first", width, inner, true, Initializer::glorot(width, inner)),
      second_(store, name + ".second", inner, width, true, Initializer::glorot(inner, width)),
      dropout_(dropout),
      site_(site) {}

Tensor FeedForward::forward(Context& context, ConstTensor x, std::int64_t first_row, Saved& saved) const {
  saved = {.x = x,
           .hidden = first_.forward(context, context.saved, x, Activation::relu),
           .dropout = context.dropout_key(site_, first_row, dropout_)};
  if (saved.dropout.probability > 0) {
    context.backend.run(Dropout{.x = saved.hidden, .y = saved.hidden, .key = saved.dropout});
  }
  return second_.forward(context, context.scratch, saved.hidden);
}

void FeedForward::backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const {
  const Arena::Scope scope(context.scratch);
  Tensor dhidden = context.scratch.make(saved.hidden.shape, context.dtype);
  second_.backward_through_relu(context, dy, saved.hidden, dhidden, saved.dropout.scale());
  first_.backward(context, dhidden, saved.x, dx, accumulate);
}

}  // namespace babelring
