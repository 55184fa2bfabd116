#include "lab/timeline/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/gzip.h"
#include "base/json.h"
#include "base/version.h"
#include "lab/timeline/trace_text.h"

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

}  // namespace babelring
