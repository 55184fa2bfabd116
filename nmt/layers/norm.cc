#include "nmt/layers/norm.h"

namespace babelring {

Norm::Norm(ParameterStore& store, const std::string& name, std::int64_t width)
    : gain_(&store.declare(name + ".gain", Shape{width}, Initializer::ones())),
      bias_(&store.declare(name + ".bias", Shape{width}, Initializer::zeros())) {}

Tensor Norm::forward(Context& context, ConstTensor x, Saved& saved) const {
  Tensor y = context.saved.make(x.shape, x.dtype);
  saved = {.x = x,
           .mean = context.saved.make(Shape{x.rows()}, DType::f32),
           .rstd = context.saved.make(Shape{x.rows()}, DType::f32)};
  context.backend.run(LayerNormForward{
      .x = x, .gain = gain_->master, .bias = bias_->master, .y = y, .mean = saved.mean, .rstd = saved.rstd});
  return y;
}

void Norm::backward(Context& context, ConstTensor dy, const Saved& saved, Tensor dx, bool accumulate) const {
  context.backend.run(LayerNormBackward{.dy = dy,
                                        .x = saved.x,
                                        .gain = gain_->master,
                                        .mean = saved.mean,
                                        .rstd = saved.rstd,
                                        .dx = dx,
                                        .dgain = gain_->gradient,
                                        .dbias = bias_->gradient,
                                        .accumulate = accumulate});
  context.ready(bias_);
  context.ready(gain_);
}

}  // namespace babelring
