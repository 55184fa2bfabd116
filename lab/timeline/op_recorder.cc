#include "lab/timeline/op_recorder.h"

#include <utility>

namespace babelring {

OpRecorder::OpRecorder(Backend& backend, const ParameterStore& store, bool ops, RankTimeline& timeline)
    : backend_(backend), place_(store), ops_(ops), timeline_(timeline) {
  if (ops) return;
  if (auto anchor = backend.mark()) clock_.emplace(std::move(anchor));
}

OpRecorder::Moment OpRecorder::now() {
  return {SteadyClock::now(), clock_ ? backend_.mark() : nullptr};
}

void OpRecorder::enter(const char* range) {
  place_.enter(range);
  open_.push_back({range, now(), {}});
}

void OpRecorder::leave() {
  place_.leave();
  if (open_.empty()) return;  // the range began before the trace
  Range range = std::move(open_.back());
  open_.pop_back();
  range.end = now();
  closed_.push_back(std::move(range));
}

void OpRecorder::ran(const OpRun& run) {
  if (!ops_) return;
  const std::size_t first = timeline_.shapes.size();
  for (const OpField& field : run.fields) timeline_.shapes.push_back({field.name, field.tensor.shape});
  timeline_.ops.push_back({.name = run.op,
                           .layer = std::string(place_.layer(run)),
                           .cost = run.cost,
                           .begin = run.begin,
                           .end = run.end,
                           .first_shape = first,
                           .shapes = run.fields.size()});
}

SteadyClock::time_point OpRecorder::time_of(const Moment& moment) const {
  return moment.device != nullptr ? clock_->at(*moment.device) : moment.host;
}

void OpRecorder::finish() {
  if (clock_) backend_.synchronize();
  for (const Range& range : closed_) {
    timeline_.ranges.push_back({range.name, time_of(range.begin), time_of(range.end)});
  }
  closed_.clear();
}

}  // namespace babelring
