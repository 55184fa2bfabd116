#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "insight/predict/rank_record.h"
#include "lab/op_place.h"
#include "nmt/train/update/update_observer.h"

namespace babelring {

/// The ops of one update: totals for each phase and op.
struct RecordedUpdate {
  std::map<std::pair<std::string, std::string>, insight::OpWork> ops;  // by phase and op; sizes are not set
  std::map<std::string, double> between_ops_ms;                        // by phase: its time less that of its ops
  double target_tokens = 0, other_ms = 0;
  std::vector<double> ready;  // part of backward at which each parameter's gradient was complete, by index

  /// Time of all ops.
  double op_ms() const;
};

/// Records the ops of a rank's updates. The first updates, whose memory is not yet mapped, are left out.
class RankRecorder final : public UpdateObserver, public OpObserver {
 public:
  static constexpr std::int64_t warm_up_updates = 2;

  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;
  Watch watch() const override { return Watch::times; }
  void enter(const char* range) override;
  void leave() override;
  void ran(const OpRun& run) override;

  const std::vector<RecordedUpdate>& updates() const { return updates_; }
  /// The parameters of the model, in forward order; empty before the first update.
  const std::vector<std::int64_t>& parameter_counts() const { return counts_; }

 private:
  using Time = SteadyClock::time_point;

  const ParameterStore* store_ = nullptr;
  std::optional<OpPlace> place_;
  std::vector<RecordedUpdate> updates_;
  std::vector<std::int64_t> counts_;
  RecordedUpdate current_;
  std::vector<Time> complete_;  // by parameter
  Time backward_begin_, backward_end_;
};

/// The record of one size.
struct RecordedSize {
  double size = 0;  // median target tokens of an update
  std::vector<RecordedUpdate> updates;
};

/// Makes a record of the ops at several sizes; the model's name, machine, version and date are the caller's. `size` is
/// the index of the size that counts as the run's. Buckets of `bucket_mb` begin with the last parameters. Requires at
/// least one update of each size.
insight::RankRecord rank_record_of(const std::vector<RecordedSize>& sizes, std::size_t size,
                                   const std::vector<std::int64_t>& parameter_counts, double bucket_mb);

}  // namespace babelring
