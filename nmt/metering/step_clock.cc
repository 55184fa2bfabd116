#include "nmt/metering/step_clock.h"

#include <algorithm>

namespace babelring {

void StepClock::enter(StepPart part) {
  if (part == current_) return;
  if (marks_ == nullptr) {
    ms(current_) += watch_.lap_ms();
  } else {
    if (spare_.empty()) spare_.push_back(marks_made_++);
    open_.push_back({.mark = spare_.back(), .part = part});
    spare_.pop_back();
    marks_->record(open_.back().mark);
  }
  current_ = part;
}

void StepClock::enter(Phase phase) {
  enter(phase == Phase::forward ? StepPart::forward : StepPart::backward);
}

/// Adds up the spans that the device has completed.
void StepClock::collect() {
  while (open_.size() > 1 && marks_->reached(open_[1].mark)) {
    ms(open_[0].part) += marks_->between_ms(open_[0].mark, open_[1].mark);
    spare_.push_back(open_[0].mark);
    open_.pop_front();
  }
}

void StepClock::fill(StepRecord& record) {
  if (marks_ != nullptr) collect();
  record.forward_ms = ms(StepPart::forward) + ms(StepPart::whole_pass) / 3;
  record.backward_ms = ms(StepPart::backward) + ms(StepPart::whole_pass) * 2 / 3;
  record.exposed_communication_ms = ms(StepPart::communication);
  record.optimizer_ms = ms(StepPart::optimizer);
  ms_ = {};
  record.other_ms = record.step_ms - record.data_ms - record.forward_ms - record.backward_ms -
                    record.exposed_communication_ms - record.optimizer_ms;
  if (marks_ == nullptr) return;
  // A device keeps working while the host waits for data or is between updates. That time was counted twice.
  for (double* part : {&record.data_ms, &record.optimizer_ms, &record.exposed_communication_ms, &record.backward_ms,
                       &record.forward_ms}) {
    const double twice = std::clamp(-record.other_ms, 0.0, *part);
    *part -= twice;
    record.other_ms += twice;
  }
}

}  // namespace babelring
