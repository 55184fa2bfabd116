#pragma once

#include <functional>
#include <set>
#include <span>
#include <vector>

#include "base/options/options.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/backend.h"
#include "nmt/optim/moment.h"
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

/// The result of one step.
struct UpdateStats {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite, so nothing changed
};

/// Adam over all parameters of a store or over this rank's shard of them. Owns both moments, f32. Parameters with one
/// dimension (biases, gains of layer norms) have no weight decay.
class Adam {
 public:
  /// Updates all parameters. The moments are in the backend's memory.
  Adam(const ParameterStore& store, Backend& backend, const AdamOptions& options)
      : Adam(store, options, Shards(), [&store, &backend] {
          const auto bytes = static_cast<std::size_t>(store.flat_size()) * size_of(DType::f32);
          return Moment(backend.allocate(bytes, MemoryPurpose::moments), store.flat_size());
        }) {}
  /// Updates only the elements of `shard`, a shard of the store's flat_size() elements. `allocate` must return a moment
  /// of zeros that keeps at least the values of the shard.
  Adam(const ParameterStore& store, const AdamOptions& options, const Shards& shard,
       const std::function<Moment()>& allocate);

  /// Excludes a parameter of the store from all later updates.
  void freeze(const Parameter& parameter);
  bool freezes(const Parameter& parameter) const { return frozen_.contains(parameter.index); }

  /// Counts what each step changes in the rows of this rank's shard; null ends that. Not owned.
  void count_rows(const RowCounting* counting) { counting_ = counting; }

  /// Starts a step: updates masters, moments and compute copies by the store's gradients, which are summed over ranks
  /// and scaled. Does nothing if their norm is not finite. `squares`: GradientNorm's sums of squares of the whole
  /// gradient, in memory that the backend reads. Does not wait for a device.
  void start_step(Backend& backend, double learning_rate, ConstTensor squares);
  /// Ends the last started step. `squares`: the same sums in host memory.
  UpdateStats finish_step(std::span<const float> squares);

  const Moment& first_moment() const { return m_; }
  const Moment& second_moment() const { return v_; }
  /// The number of steps without skipped ones: t of the bias correction. Set it when training resumes.
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
  Moment m_, v_;
  Buffer treatments_;  // AdamUpdate::treatment of the whole store; absent if all elements have the same
  std::int64_t steps_ = 0;
};

}  // namespace babelring
