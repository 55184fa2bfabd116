#include "lab/timeline/timeline.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "lab/timeline/merged_trace.h"
#include "lab/timeline/rank_events.h"

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

namespace {

constexpr std::size_t max_listed_ranks = 1000;  // more would not fit into a record

/// To the us, which keeps the text short.
double whole_us(double ms) {
  return std::round(ms * 1e3) / 1e3;
}

}  // namespace

json::object trace_content(const TraceFacts& facts, std::span<const RankEvents> ranks) {
  json::array list;
  if (ranks.size() > max_listed_ranks) ranks = {};
  for (const RankEvents& one : ranks) {
    list.push_back({{"rank", one.rank},
                    {"host", one.host},
                    {"total_ms", whole_us(one.split.total_ms)},
                    {"compute_ms", whole_us(one.split.compute_ms)},
                    {"exposed_ms", whole_us(one.split.exposed_ms)},
                    {"hidden_ms", whole_us(one.split.hidden_ms)},
                    {"data_ms", whole_us(one.split.data_ms)},
                    {"other_ms", whole_us(one.split.other_ms)}});
  }
  return {{"first_update", facts.first_update},
          {"updates", facts.updates},
          {"ops", facts.ops},
          {"request", facts.request},
          {"ranks", std::move(list)}};
}

namespace {

constexpr double max_clock_error_us = 100;  // larger errors are warned of

/// Rank 0's decisions for all ranks when a trace begins.
struct TraceStart {
  std::int64_t origin_ns = 0;  // by rank 0's clock
  TraceFacts facts;
};

}  // namespace

Timeline::~Timeline() {
  if (trace_ == nullptr) return;
  spdlog::warn("trace: the run ended after {} of {} updates to trace: no trace is written",
               trace_->timeline.updates.size(), trace_->facts.updates);
}

bool Timeline::votes_for_trace() {
  const bool begins_now = std::exchange(voted_, false);  // the update whose ranks vote now is the first of the trace
  if (trace_ != nullptr || begins_now || parts_.request == nullptr) return false;
  return voted_ = parts_.request->wanted().has_value();
}

OpObserver* Timeline::begin(const UpdateStart& start) {
  if (trace_ == nullptr && (start.trace || configured_for(start.update))) open(start);
  if (trace_ == nullptr) return nullptr;
  trace_->timeline.updates.emplace_back().begin = SteadyClock::now();
  return &*trace_->recorder;
}

/// The facts of a trace that begins with `update`, on rank 0. A request waits for a configured trace. Without a request
/// and a configured trace: no update.
TraceFacts Timeline::facts_of(std::int64_t update) const {
  if (configured_for(update)) {
    return {.first_update = update, .updates = parts_.config.updates, .ops = parts_.config.ops};
  }
  const TraceOrder order = parts_.request == nullptr ? TraceOrder() : parts_.request->wanted().value_or(TraceOrder());
  return {.first_update = update, .updates = order.updates, .ops = order.ops, .request = order.number};
}

/// Collective. Everything that is switched on here is switched off by close().
void Timeline::open(const UpdateStart& start) {
  Communicator& communicator = start.replica.communicator;
  TraceStart agreed;
  if (communicator.rank() == 0) agreed = {SteadyClock::now().time_since_epoch().count(), facts_of(start.update)};
  communicator.broadcast(&agreed, sizeof agreed, 0);
  if (agreed.facts.updates == 0) return;
  communicator_ = &communicator;
  trace_ = std::make_unique<Trace>();
  trace_->facts = agreed.facts;
  trace_->origin = SteadyClock::time_point(Nanoseconds(agreed.origin_ns));
  trace_->clock = measure_clock_offset(communicator);
  trace_->bytes_before = communicator.totals().bytes_sent;
  trace_->timeline.rank = communicator.rank();
  trace_->timeline.host = communicator.hosts()[static_cast<std::size_t>(communicator.rank())];
  trace_->timeline.device = !start.replica.backend.host_memory();
  trace_->recorder.emplace(start.replica.backend, start.replica.model.parameters(), agreed.facts.ops, trace_->timeline);
  if (communicator.tracer() != nullptr) communicator.tracer()->record_spans(true);
  parts_.spans.record(true);
}

void Timeline::end(const StepRecord& record) {
  if (trace_ == nullptr) return;
  TracedUpdate& update = trace_->timeline.updates.back();
  update.end = SteadyClock::now();
  update.record = record;
  update.bytes_sent = communicator_->totals().bytes_sent - trace_->bytes_before;
  if (communicator_->tracer() == nullptr) return;
  std::vector<CommSpan> spans = communicator_->tracer()->take_spans();
  std::move(spans.begin(), spans.end(), std::back_inserter(trace_->timeline.collectives));
}

void Timeline::recorded(const StepRecord& record) {
  if (trace_ == nullptr) return;
  trace_->timeline.updates.back().record = record;
  if (std::ssize(trace_->timeline.updates) == trace_->facts.updates) close();
}

/// Collective.
void Timeline::close() {
  const std::unique_ptr<Trace> trace = std::exchange(trace_, nullptr);
  if (communicator_->tracer() != nullptr) communicator_->tracer()->record_spans(false);
  trace->timeline.spans = parts_.spans.take();
  parts_.spans.record(false);
  trace->recorder->finish();
  const std::optional<ClockOffset> after = measure_clock_offset(*communicator_);
  std::optional<ClockMap> clock;
  if (trace->clock && after) clock.emplace(*trace->clock, *after);
  write(*trace, events_of(trace->timeline, clock, trace->origin).packed());
}

void Timeline::write(const Trace& trace, const std::string& own) {
  const std::vector<std::string> gathered = communicator_->all_gather(own);
  if (communicator_->rank() != 0) return;
  std::vector<RankEvents> ranks;
  ranks.reserve(gathered.size());
  for (const std::string& text : gathered) ranks.push_back(RankEvents::unpack(text).value());
  write_file(trace.facts, ranks);
  if (trace.facts.request > 0) parts_.request->carried_out(trace.facts.request);
}

/// On rank 0.
void Timeline::write_file(const TraceFacts& facts, const std::vector<RankEvents>& ranks) const {
  const Result<std::string> file = merge_ranks(parts_.run, facts.first_update, facts.updates, ranks);
  if (!file) {
    spdlog::warn("trace of update {}: {}: no trace is written", facts.first_update, file.error());
    return;
  }
  for (const RankEvents& rank : ranks) {
    if (rank.clock->error_us <= max_clock_error_us) continue;
    spdlog::warn("trace of update {}: the times of rank {} on {} may be wrong by {:.0f} us, expected at most {:g} us",
                 facts.first_update, rank.rank, rank.host, rank.clock->error_us, max_clock_error_us);
  }
  parts_.write({.kind = "trace",
                .name = fmt::format("trace-update-{:08}.json.gz", facts.first_update),
                .update = facts.first_update,
                .content = trace_content(facts, ranks)},
               *file);
}

}  // namespace babelring
