#include "lab/timeline/predicted_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/atomic_file.h"
#include "lab/timeline/merge.h"
#include "lab/timeline/rank_events.h"

namespace babelring {

namespace {

SteadyClock::time_point time_of(double ms) {
  return SteadyClock::time_point(
      std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>(ms)));
}

StepRecord record_of(const insight::RankOutcome& out, std::int64_t update) {
  StepRecord record;
  record.update = update;
  record.step_ms = out.end - out.begin;
  record.data_ms = out.data_wait;
  record.forward_ms = out.forward;
  record.backward_ms = out.backward;
  record.exposed_communication_ms = out.exposed;
  record.optimizer_ms = out.optimizer;
  record.other_ms = out.other + out.transfer;
  return record;
}

/// Adds the phases of an update, one after the other.
void add_phases(const insight::RankOutcome& out, RankTimeline& timeline) {
  double at = out.begin;
  const auto phase = [&](const char* category, const char* name, double ms) {
    if (ms > 0) timeline.spans.push_back({"main", category, name, time_of(at), time_of(at + ms)});
    at += ms;
  };
  phase("data", "data", out.data_wait);
  phase("phase", "other", out.transfer);
  phase("phase", "forward", out.forward);
  phase("phase", "backward", out.backward);
  phase("phase", "communication", out.exposed);
  phase("phase", "optimizer", out.optimizer);
  phase("phase", "other", out.other);
}

/// Adds the sums of an update, and the gathers of weights after its optimizer. A rank asks for a sum when its own part
/// of the gradient is complete; the simulation knows when the last rank did.
void add_collectives(const insight::SimulatedUpdate& update, const insight::Topology& topology, std::int64_t& number,
                     std::int64_t& bytes_sent, RankTimeline& timeline, StepRecord& record) {
  const auto add = [&](std::string name, double megabytes, const insight::CollectiveTimes& times) {
    const auto bytes = static_cast<std::int64_t>(megabytes * 1e6);
    timeline.collectives.push_back({.name = std::move(name),
                                    .number = number++,
                                    .bytes = bytes,
                                    .asked = time_of(times.asked),
                                    .begun = time_of(times.begin),
                                    .done = time_of(times.end)});
    bytes_sent += bytes;
    record.communication_ms += times.end - times.begin;
    record.communication_bytes += bytes;
  };
  const char* sum = topology.shards_optimizer() ? "reduce-scatter" : "all-reduce";
  for (std::size_t i = 0; i < update.sums.size(); ++i) {
    const double megabytes = update.buckets[i].megabytes;
    add(fmt::format("{} of {:.1f} MB", sum, megabytes), megabytes, update.sums[i]);
  }
  for (std::size_t i = 0; i < update.gathers.size(); ++i) {
    const double megabytes = weights_megabytes(topology, update.buckets[update.buckets.size() - 1 - i].megabytes);
    add(fmt::format("all-gather of {:.1f} MB", megabytes), megabytes, update.gathers[i]);
  }
}

}  // namespace

void write_predicted_timeline(const insight::RankRecord& record, insight::RunSetup setup, std::uint64_t seed,
                              const std::filesystem::path& file) {
  setup.updates = std::min(setup.updates, max_predicted_updates);
  std::vector<RankTimeline> ranks;
  std::vector<std::int64_t> numbers, sent;
  insight::simulate(record, setup, seed, [&](const insight::SimulatedUpdate& update) {
    if (ranks.empty()) {
      ranks.resize(update.ranks.size());
      numbers.resize(update.ranks.size());
      sent.resize(update.ranks.size());
    }
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      const insight::RankOutcome& out = update.ranks[r];
      ranks[r].rank = static_cast<int>(r);
      ranks[r].host = fmt::format("host-{}", static_cast<int>(r) / setup.topology.ranks_per_host);
      StepRecord step = record_of(out, update.number);
      add_phases(out, ranks[r]);
      add_collectives(update, setup.topology, numbers[r], sent[r], ranks[r], step);
      ranks[r].updates.push_back({time_of(out.begin), time_of(out.end), std::move(step), sent[r]});
    }
  });
  const ClockMap exact({}, {.at = SteadyClock::time_point(std::chrono::hours(1))});
  std::vector<RankEvents> events;
  for (const RankTimeline& timeline : ranks) events.push_back(events_of(timeline, exact, SteadyClock::time_point()));
  write_file_atomically(file, merge_ranks("predicted", 1, setup.updates, events).value());
}

}  // namespace babelring
