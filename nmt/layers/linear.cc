#include "nmt/layers/linear.h"

#include <utility>

#include "nmt/ops/elementwise.h"

namespace babelring {

Linear::Linear(ParameterStore& store, const std::string& name, std::int64_t in, std::int64_t out, bool bias,
               Initializer initializer)
    : weight_(&store.declare(name + ".weight", Shape{out, in}, initializer)) {
  if (bias) bias_ = &store.declare(name + ".bias", Shape{out}, Initializer::zeros());
}

Tensor Linear::forward(Context& context, Arena& arena, ConstTensor x) const {
  Tensor y = arena.make(Shape{x.rows(), out()}, context.dtype);
  forward_into(context, x, y);
  return y;
}

LinearForward Linear::forward_op(const Context& context, ConstTensor x, Tensor y) const {
  context.will_read(weight_);
  context.will_read(bias_);
  context.will_multiply(*weight_, x);
  return {.x = x,
          .weight = weight_->compute,
          .bias = bias_ != nullptr ? ConstTensor(bias_->master) : ConstTensor(),
          .y = y,
          .bias_copy = bias_ != nullptr ? bias_->compute : ConstTensor()};
}

LinearForward Linear::packed_op(const Context& context, ConstTensor x, Tensor y) const {
  LinearForward op = forward_op(context, x, y);
  op.packed = context.packed(op.weight);
  return op;
}

void Linear::forward_into(Context& context, ConstTensor x, Tensor y) const {
  context.backend.run(packed_op(context, x, y));
}

void Linear::forward_relu(Context& context, ConstTensor x, Tensor y) const {
  LinearForward op = packed_op(context, x, y);
  op.activation = Activation::relu;
  context.backend.run(op);
}

void Linear::forward_rows(Context& context, ConstTensor x, std::int64_t first, Tensor y) const {
  const std::int64_t count = y.columns();
  LinearForward op = forward_op(context, x, y);
  op.weight = weight_->compute.row_slice(first, count);
  op.packed = context.packed(op.weight);
  if (bias_ != nullptr) {
    op.bias = op.bias.row_slice(first, count);
    op.bias_copy = op.bias_copy.row_slice(first, count);
  }
  context.backend.run(op);
}

void Linear::backward_parameters(Context& context, const OutputGradient& d, ConstTensor x) const {
  const bool sums = bias_ != nullptr && d.bias == BiasGradient::missing;
  context.backend.run(LinearBackwardWeight{.dy = d.dy,
                                           .x = x,
                                           .dweight = weight_->gradient,
                                           .dbias = sums ? bias_->gradient : Tensor(),
                                           .accumulate = context.accumulate});
  context.ready(bias_);
  context.ready(weight_);
}

void Linear::backward(Context& context, const OutputGradient& d, ConstTensor x, Tensor dx, bool accumulate) const {
  backward_parameters(context, d, x);
  if (dx) {
    context.backend.run(LinearBackwardData{.dy = d.dy, .weight = weight_->compute, .dx = dx, .accumulate = accumulate});
  }
}

BiasGradient Linear::backward_through_relu(Context& context, const OutputGradient& d, ConstTensor x, Tensor dz,
                                           float dropout_scale, const Linear& before) const {
  backward_parameters(context, d, x);
  const bool sums = before.bias_ != nullptr && context.backend.prefers_fused_bias_gradients();
  context.backend.run(LinearBackwardData{.dy = d.dy,
                                         .weight = weight_->compute,
                                         .dx = dz,
                                         .gate = x,
                                         .gate_scale = dropout_scale,
                                         .dbias = sums ? before.bias_->gradient : Tensor(),
                                         .accumulate_dbias = context.accumulate});
  return sums ? BiasGradient::complete : BiasGradient::missing;
}

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
