#include "nmt/layers/residual_block.h"

namespace babelring {

ResidualBlock::ResidualBlock(ParameterStore& store, const std::string& name, std::int64_t width, NormPlace place,
                             float dropout, std::uint64_t site)
    : norm_(store, name, width), place_(place), dropout_(dropout), site_(site) {}

Tensor ResidualBlock::join(Context& context, ConstTensor x, Tensor branch, Saved& saved) const {
  Tensor sum = context.saved.make(x.shape, x.dtype);
  context.backend.run(ResidualDropout{.residual = x, .branch = branch, .y = sum, .key = saved.dropout});
  return place_ == NormPlace::pre ? sum : norm_.forward(context, sum, saved.norm);
}

/// The gradient of the body's output; `d` becomes that of the sum.
Tensor ResidualBlock::split(Context& context, Tensor d, const Saved& saved) const {
  if (place_ == NormPlace::post) norm_.backward(context, d, saved.norm, d, false);
  if (saved.dropout.probability == 0) return d;
  Tensor dbranch = context.scratch.make(d.shape, d.dtype);
  context.backend.run(Dropout{.x = d, .y = dbranch, .key = saved.dropout});
  return dbranch;
}

/// Adds the gradient that came through the body to the one that came past it.
void ResidualBlock::merge(Context& context, Tensor d, ConstTensor dh, const Saved& saved) const {
  if (place_ == NormPlace::pre) {
    norm_.backward(context, dh, saved.norm, d, true);
  } else {
    context.backend.run(Add{.x = dh, .y = d});
  }
}

}  // namespace babelring
