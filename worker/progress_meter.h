#pragma once

#include <string>

#include "base/clock.h"
#include "base/records.h"
#include "nmt/optim/duration.h"

namespace babelring {

/// Follows the step records of a training: how much of it is done, and how long the rest will take.
class ProgressMeter {
 public:
  /// Training ends after `stop_after` or `max_minutes`, whichever is reached first. 0 minutes: not bounded by time.
  ProgressMeter(Duration stop_after, double max_minutes) : stop_after_(stop_after), max_minutes_(max_minutes) {}

  /// Where a resumed run stands, and the minutes it took so far. Time is counted from here.
  void begin(const Progress& progress, double minutes);
  /// Sets fraction_done and seconds_left of the record of the update that was just done.
  void measure(StepRecord& step);

  /// What ends the training, in words: "20 epochs", "100,000 updates or 55 minutes".
  std::string end() const;

 private:
  /// Of the training, by whichever end is nearer: 0 to 1.
  double fraction_done() const;

  Duration stop_after_;
  double max_minutes_;
  Stopwatch watch_;
  Progress progress_;
  double minutes_before_ = 0, fraction_at_begin_ = 0;
};

}  // namespace babelring
