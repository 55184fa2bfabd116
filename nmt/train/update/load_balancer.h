#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/records/records.h"
#include "nmt/comm/communicator.h"
#include "nmt/data/assignment.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Divides updates among ranks by their measured speed, with data.balance measured; otherwise does nothing. With
/// training.reproducible ranks, by whole units: a unit that moves costs a message, so the fractions become equal again
/// if updates take longer than with equal ones. Collective: every rank makes the same calls.
class LoadBalancer {
 public:
  /// Numbers of updates: before the first decision, between later decisions, and between attempts to move units after
  /// moved units made updates slower.
  static constexpr std::int64_t first_interval = 20, interval = 100, retry_interval = 1000;

  /// `communicator` must outlive the balancer.
  LoadBalancer(const TrainConfig& config, Communicator& communicator);

  /// Call before batches of update `first` and later ones are prepared, and after those of any before are dropped.
  void begin(std::int64_t first);
  /// The parts of the ranks, as rank_part() counts ranks; null: equal ones. Valid until begin().
  const UpdateAssignment* assignment() const { return assignment_ ? &*assignment_ : nullptr; }
  /// Call after each update with this rank's record of it. May set the fractions of updates that are not prepared yet.
  void note(const StepRecord& record);

 private:
  void decide(std::int64_t update);
  std::vector<double> balanced();
  bool slower_than_equal();
  void log_fractions(const std::vector<double>& fractions) const;
  std::vector<std::vector<double>> gather_times() const;

  Communicator& communicator_;
  bool measures_;
  std::int64_t ahead_;      // max updates prepared ahead
  std::vector<int> ranks_;  // in the order of fractions
  int units_;               // 0: fractions of any size
  const std::vector<double> equal_;
  std::vector<double> current_;
  std::optional<UpdateAssignment> assignment_;
  // Sums over the updates from measured_from_ to next_decision_. compute_ms_ has one sum for each eighth of them.
  std::array<double, 8> compute_ms_ = {};
  double step_ms_ = 0, tokens_ = 0;
  bool waits_ = false;     // moved units made updates slower; equal fractions for retry_interval
  double equal_pace_ = 0;  // rank 0: ms per target token with equal fractions; 0: not measured
  std::int64_t measured_from_ = 0, next_decision_ = 0;
};

}  // namespace babelring
