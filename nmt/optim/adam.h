#pragma once

#include "nmt/base/options.h"
#include "nmt/core/parameters.h"
#include "nmt/ops/backend.h"

namespace babelring {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-9;
  double weight_decay = 0;
  double clip_norm = 0;  // 0: no clipping

  void bind(OptionBinder& binder);
};

/// What one step did.
struct UpdateStats {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite: nothing changed
};

/// Adam over all parameters of a store in one pass; owns the two moments, f32.
class Adam {
 public:
  Adam(const ParameterStore& store, Backend& backend, const AdamOptions& options);

  /// Applies the store's gradients (already summed and scaled) to masters and compute copies.
  UpdateStats step(Backend& backend, double learning_rate);

  /// Flat views, [flat_size] f32, in the store's order.
  Tensor first_moment() const { return m_.view(Shape{store_->flat_size()}, DType::f32); }
  Tensor second_moment() const { return v_.view(Shape{store_->flat_size()}, DType::f32); }
  /// Steps taken, without the skipped ones: t of the bias correction. Set when resuming.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }
  /// Updates skipped for a non-finite gradient since construction.
  std::int64_t skipped() const { return skipped_; }

 private:
  const ParameterStore* store_;
  AdamOptions options_;
  Buffer m_, v_, norm_;
  std::int64_t steps_ = 0, skipped_ = 0;
};

}  // namespace babelring
