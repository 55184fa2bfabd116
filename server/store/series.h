#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/metrics.h"
#include "server/store/readers.h"

namespace babelring::store {

/// One metric key of a run over a range of steps.
struct SeriesQuery {
  std::int64_t run = 0;
  std::int64_t world_size = 0;  // ranks that a sum must cover in the current attempt
  std::int64_t current_attempt = 1;
  std::string key;
  std::optional<std::int64_t> rank;  // absent: all ranks, combined by rank_aggregate(key)
  bool by_time = false;              // from and to are ms since 1970 instead of steps
  std::int64_t from = 0, to = INT64_MAX;
  std::size_t points = 1200;  // at most this many are returned
};

/// One point, or the summary of several: `min`, `average` and `max` are NaN when none was finite. For sums over ranks
/// the bounds are sums of the ranks' bounds.
struct SeriesPoint {
  std::int64_t step = 0, time_ms = 0;  // of the last point in it
  std::int64_t count = 0, finite = 0;
  double min = 0, average = 0, max = 0;
};

struct Series {
  std::vector<SeriesPoint> points;
  std::int64_t total = 0;  // points in the range before sampling
  bool sampled = false;
  std::vector<std::pair<std::int64_t, double>> non_finite;  // first 1,000 (step, value), of any rank asked for
};

/// Reads the effective series: where a later attempt resumed, the older attempt's steps past that point are left out.
/// Long ranges come from summaries of 64 to 32768 steps, so a million steps are read in a few milliseconds.
Series read_series(Reader& reader, const SeriesQuery& query);

/// What is known of a key over a whole run, as one rank reported it.
struct KeySummary {
  std::string key;
  std::int64_t count = 0;  // finite values
  double first = 0, last = 0, min = 0, max = 0;
  std::int64_t min_step = 0, max_step = 0;
};
std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank);

/// A stretch of steps of one rank that counts: from an attempt's first step to before a later attempt resumed.
struct Span {
  std::int64_t rank = 0, attempt = 0, first = 0, last = 0;
  std::string host;
};
/// In order of steps for each rank. All ranks, or one.
std::vector<Span> effective_spans(Reader& reader, std::int64_t run, std::optional<std::int64_t> rank);

/// Where an export of all stored steps stands.
struct ExportCursor {
  std::int64_t rank = 0, attempt = 0, step = 0;
};
/// Every key that any step of the run has, in the order of first appearance.
std::vector<std::string> all_keys(Reader& reader, std::int64_t run);
/// Appends up to `rows` CSV lines `rank,attempt,step,time_ms,values…` after the cursor and moves it. False at the end.
bool export_rows(Reader& reader, std::int64_t run, const std::vector<std::string>& keys, std::size_t rows,
                 ExportCursor& cursor, std::string& csv);

}  // namespace babelring::store
