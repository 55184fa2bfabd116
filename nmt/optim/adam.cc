#include "nmt/optim/adam.h"

#include <cmath>

namespace babelring {

void AdamOptions::bind(OptionBinder& b) {
  b.number("beta1", beta1, 0, 0.9999999, "decay of the first moment");
  b.number("beta2", beta2, 0, 0.9999999, "decay of the second moment");
  b.number("epsilon", epsilon, 0, 1, "added to the root of the second moment");
  b.number("weight_decay", weight_decay, 0, 1, "decoupled, as part of the learning rate");
  b.number("clip_norm", clip_norm, 0, 1e9, "largest global gradient norm; 0: no clipping");
}

Adam::Adam(const ParameterStore& store, Backend& backend, const AdamOptions& options)
    : store_(&store),
      options_(options),
      m_(backend.allocate(static_cast<std::size_t>(store.flat_size()) * size_of(DType::f32))),
      v_(backend.allocate(static_cast<std::size_t>(store.flat_size()) * size_of(DType::f32))),
      norm_(backend.allocate(size_of(DType::f32))) {}

UpdateStats Adam::step(Backend& backend, double learning_rate) {
  const Tensor norm = norm_.view(Shape{1}, DType::f32);
  backend.run(SquaredNorm{.x = store_->gradients(), .sum = norm});
  float squared = 0;
  backend.download(norm, &squared);
  UpdateStats stats{.gradient_norm = std::sqrt(static_cast<double>(squared))};
  if (!std::isfinite(stats.gradient_norm)) {
    ++skipped_;
    stats.skipped = true;
    return stats;
  }
  const bool clip = options_.clip_norm > 0 && stats.gradient_norm > options_.clip_norm;
  ++steps_;
  backend.run(AdamUpdate{.master = store_->masters(),
                         .gradient = store_->gradients(),
                         .m = first_moment(),
                         .v = second_moment(),
                         .compute = store_->compute_copies(),
                         .gradient_scale = clip ? static_cast<float>(options_.clip_norm / stats.gradient_norm) : 1.0f,
                         .learning_rate = static_cast<float>(learning_rate),
                         .beta1 = static_cast<float>(options_.beta1),
                         .beta2 = static_cast<float>(options_.beta2),
                         .eps = static_cast<float>(options_.epsilon),
                         .weight_decay = static_cast<float>(options_.weight_decay),
                         .step = steps_});
  return stats;
}

}  // namespace babelring
