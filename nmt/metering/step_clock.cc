#include "nmt/metering/step_clock.h"

#include <algorithm>

namespace babelring {

namespace {

const char* name_of(StepPart part) {
  constexpr std::array names = {"other", "forward", "backward", "forward and backward", "communication", "optimizer"};
  return names[static_cast<std::size_t>(part)];
}

}  // namespace

void StepClock::enter(StepPart part) {
  if (part == current_) return;
  if (spans_ != nullptr) log_phase();
  if (auto begin = mark_()) {
    open_.push_back({std::move(begin), part});
  } else {
    ms(current_) += watch_.lap_ms();
  }
  current_ = part;
}

/// Logs the part that ends now.
void StepClock::log_phase() {
  const auto begin = std::exchange(logged_, spans_->recording() ? SteadyClock::now() : SteadyClock::time_point());
  if (begin != SteadyClock::time_point() && logged_ != SteadyClock::time_point()) {
    spans_->add({"main", "phase", name_of(current_), begin, logged_});
  }
}

void StepClock::enter(Phase phase) {
  enter(phase == Phase::forward ? StepPart::forward : StepPart::backward);
}

/// Adds up the spans that the device has completed.
void StepClock::collect() {
  while (open_.size() > 1 && open_[1].begin->reached()) {
    ms(open_[0].part) += open_[1].begin->ms_since(*open_[0].begin);
    open_.pop_front();
  }
}

void StepClock::fill(StepTimes& times) {
  collect();
  times.forward = ms(StepPart::forward) + ms(StepPart::whole_pass) / 3;
  times.backward = ms(StepPart::backward) + ms(StepPart::whole_pass) * 2 / 3;
  times.exposed_communication = ms(StepPart::communication);
  times.optimizer = ms(StepPart::optimizer);
  ms_ = {};
  times.other = 0;
  times.other = times.step - times.sum_of_parts();
  if (open_.empty()) return;
  // A device keeps working while the host waits for data or is between updates. That time was counted twice.
  for (double* part : {&times.data, &times.optimizer, &times.exposed_communication, &times.backward, &times.forward}) {
    const double twice = std::clamp(-times.other, 0.0, *part);
    *part -= twice;
    times.other += twice;
  }
}

}  // namespace babelring
