#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/readers.h"
#include "server/store/series/downsampling.h"
#include "server/store/series/span_reader.h"

namespace babelring::store {

/// Summary of a key over a whole run, as reported by one rank.
struct KeySummary {
  std::string key;
  std::int64_t count = 0;  // number of finite values
  double first = 0, last = 0, min = 0, max = 0;
  std::int64_t min_step = 0, max_step = 0;
};
/// Summaries of all keys, in order of first appearance. Throws SqlFailure.
std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank);

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
std::int64_t estimate_rows_read(Reader& reader, const SeriesQuery& query);

}  // namespace babelring::store
