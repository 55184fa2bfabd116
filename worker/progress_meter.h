#pragma once

#include <string>

#include "base/clock.h"
#include "base/records/records.h"
#include "nmt/optim/schedule.h"

namespace babelring {

/// Estimates from step records the fraction of the training that is done and the time left.
class ProgressMeter {
 public:
  /// Training ends after `stop_after` or `max_minutes`, whichever is reached first. 0 minutes: no time limit.
  ProgressMeter(Interval stop_after, double max_minutes)
      : stop_after_(std::move(stop_after)), max_minutes_(max_minutes) {}

  /// Starts measuring. For a resumed run, `progress` and `minutes` are its progress and training time so far.
  void begin(const Progress& progress, double minutes);
  /// Sets fraction_done and seconds_left of the record of the newest update.
  void measure(StepRecord& step);

  /// The limits of the training in words: "20 epochs", "100,000 updates or 55 minutes".
  std::string end() const;

 private:
  double fraction_so_far() const;

  Interval stop_after_;
  double max_minutes_;
  Stopwatch watch_;
  Progress progress_;
  double minutes_before_ = 0, fraction_at_begin_ = 0;
};

}  // namespace babelring
