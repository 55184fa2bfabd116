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

void StepClock::fill(StepRecord& record) {
  collect();
  record.forward_ms = ms(StepPart::forward) + ms(StepPart::whole_pass) / 3;
  record.backward_ms = ms(StepPart::backward) + ms(StepPart::whole_pass) * 2 / 3;
  record.exposed_communication_ms = ms(StepPart::communication);
  record.optimizer_ms = ms(StepPart::optimizer);
  ms_ = {};
  record.other_ms = record.step_ms - record.data_ms - record.forward_ms - record.backward_ms -
                    record.exposed_communication_ms - record.optimizer_ms;
  if (open_.empty()) return;
  // A device keeps working while the host waits for data or is between updates. That time was counted twice.
  for (double* part : {&record.data_ms, &record.optimizer_ms, &record.exposed_communication_ms, &record.backward_ms,
                       &record.forward_ms}) {
    const double twice = std::clamp(-record.other_ms, 0.0, *part);
    *part -= twice;
    record.other_ms += twice;
  }
}

}  // namespace babelring
