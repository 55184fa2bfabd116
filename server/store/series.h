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
  std::int64_t world_size = 0;  // ranks that a sum over the current attempt must cover
  std::int64_t current_attempt = 1;
  std::string key;
  std::optional<std::int64_t> rank;  // absent: all ranks, combined by rank_aggregate(key)
  bool by_time = false;              // from and to are ms since 1970 instead of steps
  std::int64_t from = 0, to = INT64_MAX;
  std::size_t points = 1200;  // at most this many are returned; from 1
  bool every_point = false;   // those that are stored, not sampled
};

/// One point, or the summary of several: `min`, `average` and `max` are NaN if none was finite. For sums over ranks,
/// the bounds are the sums of the ranks' bounds.
struct SeriesPoint {
  std::int64_t step = 0, time_ms = 0;  // of its last point
  std::int64_t count = 0, finite = 0;
  double min = 0, average = 0, max = 0;
};

struct Series {
  std::vector<SeriesPoint> points;
  std::int64_t total = 0;  // points in the range before sampling
  bool sampled = false;
  bool too_long = false;  // every_point was asked for, and there are more than `points`: nothing else is set
  std::vector<std::pair<std::int64_t, double>> non_finite;  // (step, value) by rank, 1,000 at most
};

/// Reads the effective series: steps that an older attempt made past the point where a later one resumed are left out.
/// Long ranges are read from summaries of 64 to 32768 steps, so that a million steps take a few milliseconds.
Series read_series(Reader& reader, const SeriesQuery& query);

/// How many stored steps and summaries read_series() would read for the query, roughly and rather too many. Quick, and
/// the same for every key.
std::int64_t count_pieces(Reader& reader, const SeriesQuery& query);

/// Summary of a key over a whole run, as one rank reported it.
struct KeySummary {
  std::string key;
  std::int64_t count = 0;  // finite values
  double first = 0, last = 0, min = 0, max = 0;
  std::int64_t min_step = 0, max_step = 0;
};
std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank);

/// The effective steps of one rank in one attempt: up to where a later attempt resumed.
struct Span {
  std::int64_t rank = 0, attempt = 0, first = 0, last = 0;
  std::string host;
};
/// By rank, then in order of steps. Of one rank, or of all if it is absent.
std::vector<Span> effective_spans(Reader& reader, std::int64_t run, std::optional<std::int64_t> rank);

/// Position of an export of all stored steps: the last one exported.
struct ExportCursor {
  std::int64_t rank = 0, attempt = 0, step = 0;
};
/// Every key of any step of the run, in the order of first appearance.
std::vector<std::string> all_keys(Reader& reader, std::int64_t run);
/// Appends up to `rows` CSV lines, or about 1 MiB of them, `rank,attempt,step,time_ms,values…` after the cursor and
/// moves it. False at the end.
bool export_rows(Reader& reader, std::int64_t run, const std::vector<std::string>& keys, std::size_t rows,
                 ExportCursor& cursor, std::string& csv);

}  // namespace babelring::store
