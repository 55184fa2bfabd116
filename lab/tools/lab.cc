#include "lab/tools/lab.h"

#include <algorithm>
#include <utility>

namespace babelring {

Watch OpObservers::watch() const {
  Watch closest = Watch::order;
  for (const OpObserver* observer : observers_) closest = std::max(closest, observer->watch());
  return closest;
}

void OpObservers::enter(const char* range) {
  for (OpObserver* observer : observers_) observer->enter(range);
}

void OpObservers::leave() {
  for (auto observer = observers_.rbegin(); observer != observers_.rend(); ++observer) (*observer)->leave();
}

void OpObservers::begins(const OpRun& run) {
  for (OpObserver* observer : observers_) observer->begins(run);
}

void OpObservers::ran(const OpRun& run) {
  for (OpObserver* observer : observers_) observer->ran(run);
}

bool Lab::votes_for_trace() {
  bool votes = false;
  for (const auto& tool : tools_) votes = tool->votes_for_trace() || votes;  // every tool is asked
  return votes;
}

OpObserver* Lab::begin(const UpdateStart& start) {
  std::vector<OpObserver*> observers;
  for (const auto& tool : tools_) {
    if (OpObserver* observer = tool->begin(start)) observers.push_back(observer);
  }
  observers_ = observers.size() > 1 ? std::make_unique<OpObservers>(observers) : nullptr;
  if (observers_ != nullptr) return observers_.get();
  return observers.empty() ? nullptr : observers.front();
}

void Lab::end(const StepRecord& record) {
  for (const auto& tool : tools_) tool->end(record);
}

void Lab::recorded(const StepRecord& record) {
  for (const auto& tool : tools_) tool->recorded(record);
}

void Lab::finish() {
  for (const auto& tool : tools_) tool->finish();
}

}  // namespace babelring
