#include "worker/progress_meter.h"

#include "base/text.h"

namespace babelring {
namespace {

std::string_view unit_of(Interval::Unit unit) {
  switch (unit) {
    case Interval::Unit::updates:
      return "update";
    case Interval::Unit::epochs:
      return "epoch";
    case Interval::Unit::target_tokens:
    case Interval::Unit::percent:  // not the end of a training
      break;
  }
  return "target token";
}

}  // namespace

void ProgressMeter::begin(const Progress& progress, double minutes) {
  progress_ = progress;
  minutes_before_ = minutes;
  watch_ = Stopwatch();
  fraction_at_begin_ = fraction_so_far();
}

void ProgressMeter::measure(StepRecord& step) {
  progress_ = {
      .update = step.update, .epoch = step.epoch, .target_tokens = progress_.target_tokens + step.update_target_tokens};
  step.fraction_done = fraction_so_far();
  const double gained = step.fraction_done - fraction_at_begin_;
  step.seconds_left = gained > 0 ? watch_.elapsed_ms() / 1000 * (1 - step.fraction_done) / gained : 0;
}

std::string ProgressMeter::end() const {
  std::string text = counted(stop_after_.value(), unit_of(stop_after_.unit()));
  if (max_minutes_ > 0) text += " or " + counted(max_minutes_, "minute");
  return text;
}

double ProgressMeter::fraction_so_far() const {
  return fraction_done(stop_after_, max_minutes_, progress_, minutes_before_ + watch_.elapsed_ms() / 60000);
}

}  // namespace babelring
