#include "nmt/optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace babelring {

void ScheduleOptions::bind(OptionBinder& b) {
  b.choice("schedule", schedule, {"inverse-sqrt", "linear", "constant"}, "learning-rate decay after warm-up");
  b.number("learning_rate", learning_rate, 0, 10, "peak learning rate, reached at the end of warm-up");
  b.text("warm_up", warm_up, "length of the linear warm-up: 4000u updates, 2e epochs or 50Mt target tokens");
  b.text("decay", decay,
         "linear schedule only: when the learning rate reaches final_fraction, counted from the start of training and "
         "in the unit of warm_up");
  b.number("final_fraction", final_fraction, 0, 1,
           "linear schedule only: final learning rate as a fraction of the peak");
}

Duration parse_duration(const std::string& key, const std::string& text) {
  const Result<Duration> duration = Duration::parse(text);
  if (!duration) throw UsageFailure(key + ": " + duration.error());
  return duration.value();
}

Schedule::Schedule(const ScheduleOptions& options)
    : kind_(options.schedule),
      peak_(options.learning_rate),
      final_fraction_(options.final_fraction),
      warm_up_(parse_duration("optimizer.warm_up", options.warm_up)),
      decay_(parse_duration("optimizer.decay", options.decay)) {
  if (kind_ == "linear" && decay_.unit() != warm_up_.unit()) {
    throw UsageFailure(fmt::format("optimizer.decay: '{}' must have the unit of optimizer.warm_up '{}'", options.decay,
                                   options.warm_up));
  }
}

double Schedule::learning_rate(const Progress& progress) const {
  const double warm = warm_up_.fraction(progress);
  if (warm < 1) return peak_ * warm;
  if (kind_ == "inverse-sqrt" && warm_up_.value() > 0) return peak_ / std::sqrt(warm);
  if (kind_ == "linear") {
    const double start = decay_.value() > 0 ? warm_up_.value() / decay_.value() : 1;
    const double part = start < 1 ? std::clamp((decay_.fraction(progress) - start) / (1 - start), 0.0, 1.0) : 1;
    return peak_ * (1 - part * (1 - final_fraction_));
  }
  return peak_;
}

}  // namespace babelring
