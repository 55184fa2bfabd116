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

void Linear::multiply(Context& context, ConstTensor x, std::int64_t first, Tensor y, Activation activation) const {
  context.will_read(weight_);
  context.will_read(bias_);
  context.will_multiply(*weight_, x);
  const std::int64_t count = y.columns();
  const bool has_bias = bias_ != nullptr;
  const ConstTensor bias = has_bias ? ConstTensor(bias_->master).row_slice(first, count) : ConstTensor();
  if (weight_->quantized) {
    return context.backend.run(QuantizedLinear{
        .x = x, .weight = weight_->quantized, .first = first, .bias = bias, .y = y, .activation = activation});
  }
  const ConstTensor weight = weight_->compute.row_slice(first, count);
  context.backend.run(LinearForward{.x = x,
                                    .weight = weight,
                                    .bias = bias,
                                    .y = y,
                                    .activation = activation,
                                    .bias_copy = has_bias ? bias_->compute.row_slice(first, count) : ConstTensor(),
                                    .packed = context.packed(weight)});
}

void Linear::forward_into(Context& context, ConstTensor x, Tensor y) const {
  multiply(context, x, 0, y, Activation::none);
}

void Linear::forward_relu(Context& context, ConstTensor x, Tensor y) const {
  multiply(context, x, 0, y, Activation::relu);
}

void Linear::forward_rows(Context& context, ConstTensor x, std::int64_t first, Tensor y) const {
  multiply(context, x, first, y, Activation::none);
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
