#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "base/options/options.h"
#include "nmt/core/buffer.h"
#include "nmt/core/parameters.h"
#include "nmt/core/shards.h"
#include "nmt/ops/adam.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Computes the sums of squares from which Adam takes the gradient norm: one sum for each block of SquaredNorm::block
/// elements of a store's flat gradient. Because blocks are summed independently, ranks that each own a shard get the
/// same bits as one rank that owns everything.
class GradientNorm {
 public:
  /// Allocates the sums in the backend's memory. The store must outlive the object.
  GradientNorm(const ParameterStore& store, Backend& backend);

  /// The sums of squares of the store's gradients, [SquaredNorm::blocks(flat_size)] f32 in the backend's memory. Valid
  /// until the next call.
  ConstTensor squares(Backend& backend) const;
  /// Adds up the gradients of all ranks, in rank order, for the elements of `shard`, and writes the sums into the
  /// store's gradients. Returns the sums of squares of the result, 0 for blocks outside the shard. `on_ranks` holds
  /// each rank's flat gradients, [flat_size] f32; one of them is the store's.
  std::vector<double> squares_of_sum(Backend& backend, const std::vector<ConstTensor>& on_ranks,
                                     const Shards& shard) const;

 private:
  Tensor squares_tensor() const;

  const ParameterStore* store_;
  Buffer squares_;
};

/// A moment of Adam, or the average of its weights: an f32 value for each element of a store's flat arrays. A rank may
/// keep the values of its shard only.
class Moment {
 public:
  /// Keeps all `size` values, in `memory`.
  Moment(Buffer memory, std::int64_t size) : Moment(std::move(memory), size, Shards()) {}
  /// Keeps the values of `shard`, one range behind the other. `memory`: of bytes_of() bytes.
  Moment(Buffer memory, std::int64_t size, const Shards& shard);
  /// The bytes of the values of `shard`.
  static std::size_t bytes_of(std::int64_t size, const Shards& shard);

  std::int64_t size() const { return size_; }
  /// The elements whose values are kept, as ascending ranges.
  const std::vector<ElementRange>& kept() const { return kept_; }
  /// The kept values, in the order of kept(): [elements of kept()] f32.
  Tensor values() const;
  /// The values of `range`, [its elements] f32. Throws Failure unless it lies in one range of kept().
  Tensor part(const ElementRange& range) const;

 private:
  Buffer memory_;
  std::int64_t size_;
  std::vector<ElementRange> kept_;
  std::vector<std::int64_t> begins_;  // of the kept ranges, in values()
};

/// True for the bias that belongs to the neurons of a feed-forward layer, an element each.
inline bool is_neuron_bias(std::string_view parameter) {
  return parameter.ends_with(".feed_forward.first.bias");
}

/// Counts, row by row, what an optimizer changes in the parameters of a store (see RowCount). Rows of a matrix
/// [out, in] are its outputs, rows of an embedding its subwords; a vector is one row, but neuron biases have a row for
/// each neuron.
class RowCounting {
 public:
  /// `allocate` returns zeroed memory for the counters: common memory if several ranks update one copy of the weights.
  /// The store and the backend must outlive the object.
  RowCounting(const ParameterStore& store, Backend& backend, const std::function<Buffer(std::size_t bytes)>& allocate);

  /// The counters of a range of the flat array, which begins at a multiple of Shards::grain, for AdamUpdate::rows.
  RowCounters of(const ElementRange& range) const;
  /// The counters of all rows, in the order of the parameters.
  std::vector<RowCount> read() const;
  /// Sets all counters to zero. No rank may be updating.
  void reset();

  std::int64_t rows() const { return rows_; }
  /// Index of a parameter's first row.
  std::int64_t first_row(const Parameter& parameter) const { return first_rows_[parameter.index]; }
  static std::int64_t rows_of(const Parameter& parameter) {
    return parameter.shape.rank() == 1 && !is_neuron_bias(parameter.name) ? 1 : parameter.shape[0];
  }

 private:
  Tensor counts() const;

  Backend& backend_;
  std::int64_t rows_ = 0;
  std::vector<std::int64_t> first_rows_;  // by index of the parameter
  std::int64_t block_count_ = 0, piece_count_ = 0, part_count_ = 0;
  Buffer blocks_, pieces_, counts_, parts_;  // the tensors of RowCounters, for the whole flat array
};

/// Parameters whose updates differ from those of the others.
struct ParameterGroup {
  std::vector<std::string> parameters;  // globs for fnmatch(3)
  double rate_factor = 1, decay_factor = 1;

  void bind(OptionBinder& binder);
};

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.98;
  double epsilon = 1e-9;
  double weight_decay = 0;
  double clip_norm = 0;  // 0: no clipping
  std::vector<ParameterGroup> groups;

  void bind(OptionBinder& binder);
};

/// The parameters whose names match a glob for fnmatch(3). Throws UsageFailure that names `key` if none does.
std::vector<const Parameter*> matching_parameters(const ParameterStore& store, std::string_view key,
                                                  const std::string& glob);

/// The result of one step.
struct UpdateStats {
  double gradient_norm = 0;  // before clipping
  bool skipped = false;      // the norm was not finite, so nothing changed
};

/// Adam over all parameters of a store or over this rank's shard of them. Owns both moments, f32. Parameters with one
/// dimension (biases, gains of layer norms) have no weight decay. A parameter belongs to the first of the options'
/// groups that matches its name. The constructors throw UsageFailure if a pattern of a group matches no parameter.
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

  /// From now on each step also updates `average`, which keeps at least the values of the shard, to the moving average
  /// of the masters: average += (1 - decay_t) (master - average), decay_t = min(decay, (1 + t) / (10 + t)) in step t,
  /// so that the weights of the first steps are soon forgotten. Source: TensorFlow's tf.train.ExponentialMovingAverage
  /// with num_updates. `average` must have the values of the masters before the first step.
  void keep_average(double decay, Moment average);

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
  /// Null without keep_average().
  const Moment* average() const { return average_ ? &*average_ : nullptr; }
  /// The number of steps without skipped ones: t of the bias correction. Set it when training resumes.
  std::int64_t steps() const { return steps_; }
  void set_steps(std::int64_t steps) { steps_ = steps; }

 private:
  AdamUpdate::Group group(const Parameter& parameter) const;
  void upload_groups(Backend& backend);
  void update(Backend& backend, const ElementRange& range, double learning_rate, ConstTensor squares) const;

  const ParameterStore* store_;
  AdamOptions options_;
  std::vector<ElementRange> own_;
  std::set<std::size_t> frozen_;  // indices of parameters
  const RowCounting* counting_ = nullptr;
  Moment m_, v_;
  std::optional<Moment> average_;
  double average_decay_ = 0;
  std::vector<const ParameterGroup*> matched_;  // by index of the parameter; null: no group
  Buffer group_, groups_;  // those of AdamUpdate for the whole store; absent if all elements are updated alike
  std::int64_t group_count_ = 0;
  std::int64_t steps_ = 0;
};

}  // namespace babelring
