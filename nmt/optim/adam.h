#pragma once

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "base/options.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"
#include "nmt/optim/row_counting.h"

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

/// Adam over the parameters of a store, or over this rank's share of them, in one pass; owns the two moments, f32.
/// Weight decay leaves out parameters of one dimension: biases, and the gains of norms.
class Adam {
 public:
  /// All parameters, the moments in the backend's memory.
  Adam(const ParameterStore& store, Backend& backend, const AdamOptions& options)
      : Adam(store, options, Shards(), [&backend](std::size_t bytes) { return backend.allocate(bytes); }) {}
  /// Only the elements in `shares`, which divides the store's flat_size(). `allocate` returns zeroed memory for the
  /// moments.
  Adam(const ParameterStore& store, const AdamOptions& options, const Shards& shares,
       const std::function<Buffer(std::size_t bytes)>& allocate);

  /// Keeps a parameter of the store as it is from now on.
  void freeze(const Parameter& parameter);
  bool freezes(const Parameter& parameter) const { return frozen_.contains(parameter.index); }

  /// Counts what each step changes in the rows of this rank's share, until it is set to null. Not owned.
  void count_rows(const RowCounting* counting) { counting_ = counting; }

  /// Applies the store's gradients (already summed and scaled) to masters and compute copies, unless their norm is not
  /// finite. `squares` are those of GradientNorm, of all ranks' shares, where the backend reads them. The host need not
  /// know them, and waits for nothing: finish_step() says what the step did.
  void start_step(Backend& backend, double learning_rate, ConstTensor squares);
  /// Ends the step that was started last; `squares`: the same, on the host.
  UpdateStats finish_step(std::span<const float> squares);

  /// Flat views, [flat_size] f32, in the store's order.
  Tensor first_moment() const { return m_.view(Shape{store_->flat_size()}, DType::f32); }
  Tensor second_moment() const { return v_.view(Shape{store_->flat_size()}, DType::f32); }
  std::size_t moment_bytes() const { return first_moment().bytes() + second_moment().bytes(); }
  /// Steps taken, not counting skipped ones: t of the bias correction. Set when resuming.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  void upload_treatments(Backend& backend);
  void update(Backend& backend, const ElementRange& range, double learning_rate, ConstTensor squares) const;

  const ParameterStore* store_;
  AdamOptions options_;
  std::vector<ElementRange> own_;
  std::set<std::size_t> frozen_;  // indices of parameters
  const RowCounting* counting_ = nullptr;
  Buffer m_, v_;
  Buffer treatments_;  // of AdamUpdate, for the whole store; absent if all are the same
  std::int64_t steps_ = 0;
};

}  // namespace babelring
