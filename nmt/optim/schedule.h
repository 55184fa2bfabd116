#pragma once

#include <string>

#include "base/options.h"
#include "nmt/optim/duration.h"

namespace babelring {

/// Options of Schedule. bind() documents each member.
struct ScheduleOptions {
  std::string schedule = "inverse-sqrt";
  double learning_rate = 0.0007;
  std::string warm_up = "4000u";
  std::string decay = "100000u";
  double final_fraction = 0;

  void bind(OptionBinder& binder);
};

/// Learning rate as a function of progress: linear warm-up from 0 to `learning_rate`, then
///   inverse-sqrt  learning_rate * sqrt(warm_up / t)     Source: Vaswani et al. 2017, eq. 3, scaled to its peak
///   linear        falling to final_fraction * learning_rate at t = decay, constant after
///   constant
class Schedule {
 public:
  /// Throws UsageFailure that names the key if a duration cannot be parsed, or if the units of warm_up and decay differ
  /// in a linear schedule.
  explicit Schedule(const ScheduleOptions& options);

  /// Learning rate of an update. `progress` includes that update, so the first call has progress.update == 1.
  double learning_rate(const Progress& progress) const;

 private:
  std::string kind_;
  double peak_, final_fraction_;
  Duration warm_up_, decay_;
};

/// Parses the duration configured under `key`. Throws UsageFailure: "optimizer.warm_up: expected …, found '…'".
Duration parse_duration(const std::string& key, const std::string& text);

}  // namespace babelring
