#include "nmt/layers/residual_block.h"
#include "nmt/ops/elementwise.h"

namespace babelring {

Norm::Norm(ParameterStore& store, const std::string& name, std::int64_t width, const NormOptions& options)
    : gain_(&store.declare(name + ".gain", Shape{width}, Initializer::ones())), epsilon_(options.epsilon) {
  if (options.kind == NormKind::layer) bias_ = &store.declare(name + ".bias", Shape{width}, Initializer::zeros());
}

Norm::Saved Norm::begin_forward(Context& context, ConstTensor x) const {
  context.will_read(gain_);
  context.will_read(bias_);
  return {.x = x,
          .mean = bias_ != nullptr ? context.saved.make(Shape{x.rows()}, DType::f32) : Tensor(),
          .rstd = context.saved.make(Shape{x.rows()}, DType::f32)};
}

Tensor Norm::forward(Context& context, ConstTensor x, Saved& saved) const {
  Tensor y = context.saved.make(x.shape, x.dtype);
  saved = begin_forward(context, x);
  context.backend.run(LayerNormForward{
      .x = x, .gain = gain_->master, .bias = bias(), .y = y, .mean = saved.mean, .rstd = saved.rstd, .eps = epsilon_});
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
                                          .bias = bias(),
                                          .sum = sum,
                                          .y = y,
                                          .mean = saved.mean,
                                          .rstd = saved.rstd,
                                          .eps = epsilon_});
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
          .dbias = bias_ != nullptr ? bias_->gradient : Tensor(),
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

ResidualBlock::ResidualBlock(ParameterStore& store, const std::string& name, std::int64_t width, NormPosition place,
                             const NormOptions& norm, float dropout, std::uint64_t site)
    : norm_(store, name, width, norm), place_(place), dropout_(dropout), site_(site) {}

Tensor ResidualBlock::join(Context& context, ConstTensor x, Tensor branch, Saved& saved) const {
  if (place_ == NormPosition::post) return norm_.forward_sum(context, x, branch, saved.dropout, saved.norm);
  Tensor sum = context.saved.make(x.shape, x.dtype);
  context.backend.run(ResidualDropout{.residual = x, .branch = branch, .y = sum, .key = saved.dropout});
  return sum;
}

/// Returns the gradient of the body's output and replaces `d` by the gradient of the sum's residual input.
OutputGradient ResidualBlock::split(Context& context, Tensor d, const Saved& saved, const Linear& output) const {
  const bool post = place_ == NormPosition::post;
  if (saved.dropout.probability == 0) {
    if (post) norm_.backward(context, d, saved.norm, d, false);
    return d;
  }
  Tensor dbranch = context.scratch.make(d.shape, d.dtype);
  if (!post) {
    context.backend.run(Dropout{.x = d, .y = dbranch, .key = saved.dropout});
    return dbranch;
  }
  const bool sums = output.bias() != nullptr && context.backend.prefers_fused_bias_gradients();
  norm_.backward_sum(context, d, saved.norm, saved.dropout, d, dbranch, sums ? output.bias()->gradient : Tensor());
  return {dbranch, sums ? BiasGradient::complete : BiasGradient::missing};
}

}  // namespace babelring
