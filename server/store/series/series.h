#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/series/downsampling.h"
#include "server/store/series/span_reader.h"

namespace babelring::store {

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
