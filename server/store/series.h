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
  std::int64_t world_size = 0;  // number of ranks needed for a complete sum in the current attempt
  std::int64_t current_attempt = 1;
  std::string key;
  std::optional<std::int64_t> rank;  // absent: all ranks, combined by rank_aggregate(key)
  bool by_time = false;              // `from` and `to` are ms since 1970, otherwise steps
  std::int64_t from = 0, to = INT64_MAX;
  std::size_t points = 1200;  // max number of points to return; at least 1
  bool every_point = false;   // return all stored points without sampling
};

/// One point, or the summary of several. `min`, `average` and `max` are NaN if no value was finite. For sums over
/// ranks, `min` and `max` are the sums of the ranks' bounds.
struct SeriesPoint {
  std::int64_t step = 0, time_ms = 0;  // of the last step
  std::int64_t count = 0, finite = 0;
  double min = 0, average = 0, max = 0;
};

struct Series {
  std::vector<SeriesPoint> points;
  std::int64_t total = 0;  // number of points in the range before sampling
  bool sampled = false;
  bool too_long = false;  // every_point was set and there are more than `points`; no other member is set then
  std::vector<std::pair<std::int64_t, double>> non_finite;  // (step, value) by rank, max 1,000
};

/// Reads the effective series. It excludes steps of an older attempt past the point where a later attempt resumed. Long
/// ranges are read from summaries of 64 to 32768 steps, so a million steps take a few milliseconds.
Series read_series(Reader& reader, const SeriesQuery& query);

/// Estimates how many stored steps and summaries read_series() would read; tends to overestimate. Fast, and independent
/// of the key.
std::int64_t count_pieces(Reader& reader, const SeriesQuery& query);

/// Summary of a key over a whole run, as reported by one rank.
struct KeySummary {
  std::string key;
  std::int64_t count = 0;  // number of finite values
  double first = 0, last = 0, min = 0, max = 0;
  std::int64_t min_step = 0, max_step = 0;
};
std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank);

/// The effective steps of one rank in one attempt, up to the point where a later attempt resumed. Bounds are inclusive.
struct Span {
  std::int64_t rank = 0, attempt = 0, first = 0, last = 0;
  std::string host;
};
/// Spans ordered by rank, then by step. `rank` absent: all ranks.
std::vector<Span> effective_spans(Reader& reader, std::int64_t run, std::optional<std::int64_t> rank);

/// Position of an export: the last exported step.
struct ExportCursor {
  std::int64_t rank = 0, attempt = 0, step = 0;
};
/// All keys of the run's steps, in order of first appearance.
std::vector<std::string> all_keys(Reader& reader, std::int64_t run);
/// Appends CSV lines `rank,attempt,step,time_ms,values…` for the steps after the cursor, and advances the cursor. Stops
/// after `rows` lines or about 1 MiB. Returns false at the end.
bool export_rows(Reader& reader, std::int64_t run, const std::vector<std::string>& keys, std::size_t rows,
                 ExportCursor& cursor, std::string& csv);

}  // namespace babelring::store
