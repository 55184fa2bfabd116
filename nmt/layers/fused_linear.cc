#include "nmt/layers/fused_linear.h"

#include <utility>

namespace babelring {

FusedLinear::FusedLinear(std::vector<const Linear*> parts) : parts_(std::move(parts)) {}

Tensor FusedLinear::forward(Context& context, ConstTensor x, Saved& saved) const {
  const auto outputs = std::ssize(parts_) * out();
  saved = {.weight = context.saved.make(Shape{outputs, x.columns()}, context.dtype),
           .y = context.saved.make(Shape{x.rows(), outputs}, context.dtype)};
  const Arena::Scope scope(context.scratch);
  Tensor bias;
  if (parts_.front()->bias() != nullptr) bias = context.scratch.make(Shape{outputs}, DType::f32);
  for (std::int64_t first = 0; const Linear* part : parts_) {
    context.will_read(&part->weight());
    context.will_read(part->bias());
    context.backend.run(Cast{.x = part->weight().compute, .y = saved.weight.row_slice(first, out())});
    if (bias) context.backend.run(Cast{.x = part->bias()->master, .y = bias.row_slice(first, out())});
    first += out();
  }
  context.backend.run(LinearForward{.x = x, .weight = saved.weight, .bias = bias, .y = saved.y});
  return saved.y;
}

void FusedLinear::backward_data(Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const {
  context.backend.run(LinearBackwardData{.dy = dy, .weight = saved.weight, .dx = dx});
}

}  // namespace babelring
