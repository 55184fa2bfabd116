#include "nmt/layers/norm.h"

namespace babelring {

Norm::Norm(ParameterStore& store, const std::string& name, std::int64_t width)
    : gain_(&store.declare(name + ".gain", Shape{width}, Initializer::ones())),
      bias_(&store.declare(name + ".bias", Shape{width}, Initializer::zeros())) {}

Norm::Saved Norm::begin_forward(Context& context, ConstTensor x) const {
  context.will_read(gain_);
  context.will_read(bias_);
  return {.x = x,
          .mean = context.saved.make(Shape{x.rows()}, DType::f32),
          .rstd = context.saved.make(Shape{x.rows()}, DType::f32)};
}

Tensor Norm::forward(Context& context, ConstTensor x, Saved& saved) const {
  Tensor y = context.saved.make(x.shape, x.dtype);
  saved = begin_forward(context, x);
  context.backend.run(LayerNormForward{
      .x = x, .gain = gain_->master, .bias = bias_->master, .y = y, .mean = saved.mean, .rstd = saved.rstd});
  return y;
}

Tensor Norm::forward_sum(Context& context, ConstTensor residual, ConstTensor branch, const DropoutKey& key,
                         Saved& saved) const {
  Tensor sum = context.saved.make(residual.shape, residual.dtype), y = context.saved.make(residual.shape, sum.dtype);
  saved = begin_forward(context, sum);
  context.backend.run(ResidualNormForward{.residual = residual,
                                          .branch = branch,
                                          .key = key,
                                          .gain = gain_->master,
                                          .bias = bias_->master,
                                          .sum = sum,
                                          .y = y,
                                          .mean = saved.mean,
                                          .rstd = saved.rstd});
  return y;
}

LayerNormBackward Norm::backward_op(const Context& context, ConstTensor dy, const Saved& saved, Tensor dx) const {
  return {.dy = dy,
          .x = saved.x,
          .gain = gain_->master,
          .mean = saved.mean,
          .rstd = saved.rstd,
          .dx = dx,
          .dgain = gain_->gradient,
          .dbias = bias_->gradient,
          .accumulate_parameters = context.accumulate};
}

void Norm::run_backward(Context& context, const LayerNormBackward& op) const {
  context.backend.run(op);
  context.ready(bias_);
  context.ready(gain_);
}

void Norm::backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const {
  LayerNormBackward op = backward_op(context, dy, saved, dx);
  op.accumulate = accumulate;
  run_backward(context, op);
}

void Norm::backward_sum(Context& context, ConstTensor dy, const Saved& saved, const DropoutKey& key, Tensor dresidual,
                        Tensor dbranch, Tensor dbranch_bias) const {
  LayerNormBackward op = backward_op(context, dy, saved, dresidual);
  op.dbranch = dbranch;
  op.dbranch_bias = dbranch_bias;
  op.key = key;
  run_backward(context, op);
}

}  // namespace babelring
