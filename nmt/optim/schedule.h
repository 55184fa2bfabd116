#pragma once

#include <string>

#include "base/options.h"
#include "nmt/optim/duration.h"

namespace babelring {

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
  /// Throws UsageFailure naming the key whose duration cannot be read.
  explicit Schedule(const ScheduleOptions& options);

  /// Of the update that `progress` counts as done, the first being update 1.
  double learning_rate(const Progress& progress) const;

 private:
  std::string kind_;
  double peak_, final_fraction_;
  Duration warm_up_, decay_;
};

/// Parses a duration of the configuration. Throws UsageFailure: "optimizer.warm_up: expected …, found '…'".
Duration parse_duration(const std::string& key, const std::string& text);

}  // namespace babelring
