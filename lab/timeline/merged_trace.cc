#include "lab/timeline/merged_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/files.h"
#include "base/gzip.h"
#include "base/json.h"
#include "base/version.h"
#include "lab/timeline/rank_events.h"
#include "lab/timeline/trace_file.h"

namespace babelring {
namespace {

json::object header(const std::string& run, std::int64_t first_update, std::int64_t updates,
                    std::span<const RankEvents> ranks) {
  json::array clocks;
  for (const RankEvents& part : ranks) {
    clocks.push_back(json::object{{"rank", part.rank},
                                  {"host", part.host},
                                  {"device", part.device},
                                  {"clock_ahead_us", part.clock->ahead_us},
                                  {"clock_error_us", part.clock->error_us},
                                  {"clock_drift_ppm", part.clock->drift_ppm}});
  }
  return {{"format", trace_format},
          {"program", fmt::format("babelring {}", version)},
          {"run", run},
          {"first_update", first_update},
          {"updates", updates},
          {"ranks", clocks}};
}

/// A collective on one rank.
struct RankCollective {
  int rank;
  const TracedCollective* times;
};

/// From the rank that asked last, where the bucket begins, to the other ranks, where it ends.
void write_arrows(const std::vector<RankCollective>& on_ranks, std::vector<TraceText>& texts) {
  const auto last =
      std::ranges::max_element(on_ranks, {}, [](const RankCollective& one) { return one.times->asked_us; });
  for (const RankCollective& other : on_ranks) {
    if (other.rank == last->rank || other.times->done_us <= last->times->begun_us) continue;
    const std::string id = fmt::format("{}-to-{}-{}", last->rank, other.rank, other.times->number);
    texts[static_cast<std::size_t>(last->rank)].begin_arrow(id, last->times->thread, last->times->begun_us);
    texts[static_cast<std::size_t>(other.rank)].end_arrow(id, other.times->thread, other.times->done_us);
  }
}

/// The arrows between ranks.
std::string arrows(std::span<const RankEvents> ranks) {
  std::map<std::int64_t, std::vector<RankCollective>> buckets;  // by number
  std::vector<TraceText> texts;
  for (const RankEvents& part : ranks) {
    texts.emplace_back(part.rank);
    for (const TracedCollective& one : part.collectives) {
      if (one.bytes > 0) buckets[one.number].push_back({part.rank, &one});
    }
  }
  for (const auto& [number, on_ranks] : buckets) write_arrows(on_ranks, texts);
  std::string all;
  for (const TraceText& text : texts) all += text.text();
  return all;
}

}  // namespace

Result<std::string> merge_ranks(const std::string& run, std::int64_t first_update, std::int64_t updates,
                                std::span<const RankEvents> ranks) {
  for (const RankEvents& part : ranks) {
    if (!part.clock) {
      return Error{fmt::format("rank {} on {} has no clock offset to rank 0, expected one for every rank", part.rank,
                               part.host)};
    }
  }
  GzipMember file;
  file.add(gzip_part(fmt::format(R"({{"displayTimeUnit":"ms","otherData":{},"traceEvents":[)"
                                 "\n",
                                 to_text(header(run, first_update, updates, ranks)))));
  for (const RankEvents& part : ranks) file.add(part.events);
  // The last element of the array has no comma.
  file.add(gzip_part(arrows(ranks) +
                     R"({"name":"process_labels","ph":"M","pid":0,"tid":0,"args":{"labels":"reference"}}]})" + "\n"));
  return file.finish();
}

namespace {

SteadyClock::time_point time_of(double ms) {
  return SteadyClock::time_point(
      std::chrono::duration_cast<Nanoseconds>(std::chrono::duration<double, std::milli>(ms)));
}

StepRecord record_of(const insight::RankOutcome& out, std::int64_t update) {
  StepRecord record;
  record.update = update;
  record.times = out.parts;
  record.times.other += out.parts.transfer;
  return record;
}

/// Adds the phases of an update, one after the other.
void add_phases(const insight::RankOutcome& out, RankTimeline& timeline) {
  double at = out.begin;
  const auto phase = [&](const char* category, const char* name, double ms) {
    if (ms > 0) timeline.spans.push_back({"main", category, name, time_of(at), time_of(at + ms)});
    at += ms;
  };
  phase("data", "data", out.parts.data);
  phase("phase", "other", out.parts.transfer);
  phase("phase", "forward", out.parts.forward);
  phase("phase", "backward", out.parts.backward);
  phase("phase", "communication", out.parts.exposed_communication);
  phase("phase", "optimizer", out.parts.optimizer);
  phase("phase", "other", out.parts.other);
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
    record.times.communication += times.end - times.begin;
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
