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
           .hidden = context.saved.make_rows(x.rows(), first_.out(), context.dtype),
           .dropout = context.dropout_key(site_, first_row, dropout_)};
  first_.forward_relu(context, x, saved.hidden);
  if (saved.dropout.probability > 0) {
    context.backend.run(Dropout{.x = saved.hidden, .y = saved.hidden, .key = saved.dropout});
  }
  return second_.forward(context, context.scratch, saved.hidden);
}

void FeedForward::backward(Context& context, const OutputGradient& d, const Saved& saved, Tensor dx,
                           bool accumulate) const {
  const Arena::Scope scope(context.scratch);
  Tensor dhidden = context.scratch.make_rows(saved.hidden.rows(), saved.hidden.columns(), context.dtype);
  const BiasGradient of_first =
      second_.backward_through_relu(context, d, saved.hidden, dhidden, saved.dropout.scale(), first_);
  first_.backward(context, {dhidden, of_first}, saved.x, dx, accumulate);
}

}  // namespace babelring
