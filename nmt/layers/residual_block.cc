#include "nmt/layers/residual_block.h"

namespace babelring {

ResidualBlock::ResidualBlock(ParameterStore& store, const std::string& name, std::int64_t width, NormPlace place,
                             float dropout, std::uint64_t site)
    : norm_(store, name, width), place_(place), dropout_(dropout), site_(site) {}

Tensor ResidualBlock::join(Context& context, ConstTensor x, Tensor branch, Saved& saved) const {
  if (place_ == NormPlace::post) return norm_.forward_sum(context, x, branch, saved.dropout, saved.norm);
  Tensor sum = context.saved.make(x.shape, x.dtype);
  context.backend.run(ResidualDropout{.residual = x, .branch = branch, .y = sum, .key = saved.dropout});
  return sum;
}

/// Returns the gradient of the body's output and replaces `d` by the gradient of the sum's residual input.
OutputGradient ResidualBlock::split(Context& context, Tensor d, const Saved& saved, const Linear& output) const {
  const bool post = place_ == NormPlace::post;
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
