#include "lab/timeline/timeline.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <iterator>
#include <utility>
#include <vector>

#include "lab/timeline/merge.h"
#include "lab/timeline/rank_events.h"

namespace babelring {

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
  communicator.record_spans(true);
  parts_.spans.record(true);
}

void Timeline::end(const StepRecord& record) {
  if (trace_ == nullptr) return;
  TracedUpdate& update = trace_->timeline.updates.back();
  update.end = SteadyClock::now();
  update.record = record;
  update.bytes_sent = communicator_->totals().bytes_sent - trace_->bytes_before;
  std::vector<CommSpan> spans = communicator_->take_spans();
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
  communicator_->record_spans(false);
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
