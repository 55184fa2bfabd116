#include "server/store/series/series.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <unordered_map>

#include "server/store/series/span_reader.h"

namespace babelring::store {
namespace {

constexpr std::int64_t max_wide_summaries = 256;  // in memory at once; each has a value for every key

/// Collects summaries by key, in order of first appearance.
class Collector {
 public:
  KeySummary& at(const std::string& key) {
    const auto [found, fresh] = places_.try_emplace(key, summaries_.size());
    if (fresh) summaries_.emplace_back().key = key;
    return summaries_[found->second];
  }
  std::vector<KeySummary> take() { return std::move(summaries_); }

 private:
  std::vector<KeySummary> summaries_;
  std::unordered_map<std::string, std::size_t> places_;
};

void record(KeySummary& summary, std::int64_t count, double min, std::int64_t min_step, double max,
            std::int64_t max_step) {
  if (summary.count == 0 || min < summary.min) {
    summary.min = min;
    summary.min_step = min_step;
  }
  if (summary.count == 0 || max > summary.max) {
    summary.max = max;
    summary.max_step = max_step;
  }
  summary.count += count;
}

void record_steps(Reader& reader, std::int64_t run, const Span& span, std::int64_t first, std::int64_t last,
                  Collector& collector) {
  Statement rows = reader.database.prepare(
      "SELECT step, layout, vals FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND step <= ? "
      "ORDER BY step");
  rows.bind(run, span.rank, span.attempt, first, last);
  std::int64_t step = 0, layout = 0;
  std::string_view blob;
  while (rows.next(step, layout, blob)) {
    const auto& keys = reader.layouts.keys(layout);
    const PackedDoubles values(blob);
    for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i) {
      if (!std::isfinite(values[i])) continue;
      KeySummary& summary = collector.at(keys[i]);
      if (summary.count == 0) summary.first = values[i];
      summary.last = values[i];
      record(summary, 1, values[i], step, values[i], step);
    }
  }
}

struct Summary {
  std::int64_t bucket = 0, layout = 0;
  std::string entries;
};

std::vector<Summary> summaries(Reader& reader, std::int64_t run, const Span& span, std::int64_t first,
                               std::int64_t last, int level) {
  Statement rows = reader.database.prepare(
      level == 0
          ? "SELECT bucket, layout, vals FROM buckets WHERE run = ? AND rank = ? AND attempt = ? AND bucket >= ? "
            "AND bucket < ? ORDER BY bucket LIMIT ?"
          : "SELECT bucket, layout, vals FROM pyramid WHERE run = ? AND rank = ? AND attempt = ? AND bucket >= ? "
            "AND bucket < ? AND level = ? ORDER BY bucket LIMIT ?");
  const std::int64_t steps = steps_of_level(level);
  const std::int64_t begin = (first + steps - 1) / steps, end = (last + 1) / steps;
  if (level == 0) {
    rows.bind(run, span.rank, span.attempt, begin, end, max_wide_summaries);
  } else {
    rows.bind(run, span.rank, span.attempt, begin, end, level, max_wide_summaries);
  }
  std::vector<Summary> found;
  Summary summary;
  while (rows.next(summary.bucket, summary.layout, summary.entries)) found.push_back(summary);
  return found;
}

void record_summary(Reader& reader, const Summary& summary, std::int64_t base, Collector& collector) {
  const auto& keys = reader.layouts.keys(summary.layout);
  for (std::size_t i = 0; i < std::min(keys.size(), summary.entries.size() / sizeof(BucketEntry)); ++i) {
    BucketEntry entry;
    std::memcpy(&entry, summary.entries.data() + i * sizeof entry, sizeof entry);
    if (entry.finite == 0) continue;
    record(collector.at(keys[i]), entry.finite, entry.min, base + entry.min_offset, entry.max, base + entry.max_offset);
  }
}

/// Summarises the range from summaries up to `level`, and from single steps where there are none.
void record_range(Reader& reader, std::int64_t run, const Span& span, std::int64_t first, std::int64_t last, int level,
                  Collector& collector) {
  if (first > last) return;
  if (level < 0) {
    record_steps(reader, run, span, first, last, collector);
    return;
  }
  std::int64_t next = first;
  for (bool all = false; !all;) {
    const auto found = summaries(reader, run, span, next, last, level);
    all = std::ssize(found) < max_wide_summaries;
    for (const Summary& summary : found) {
      const std::int64_t base = summary.bucket * steps_of_level(level);
      record_range(reader, run, span, next, base - 1, level - 1, collector);
      record_summary(reader, summary, base, collector);
      next = base + steps_of_level(level);
    }
  }
  record_range(reader, run, span, next, last, level - 1, collector);
}

void record_span(Reader& reader, std::int64_t run, const Span& span, Collector& collector) {
  // Single steps give `first` and `last`; summaries cover the range between.
  const std::int64_t whole = std::min((span.first / bucket_steps + 1) * bucket_steps, span.last + 1);
  const std::int64_t tail = std::max(bucket_of(span.last) * bucket_steps, whole);
  record_steps(reader, run, span, span.first, whole - 1, collector);
  record_range(reader, run, span, whole, tail - 1, top_level, collector);
  if (tail <= span.last) record_steps(reader, run, span, tail, span.last, collector);
}

}  // namespace

std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank) {
  Collector collector;
  for (const Span& span : effective_spans(reader, run, rank)) record_span(reader, run, span, collector);
  return collector.take();
}

namespace {

constexpr std::size_t max_non_finite = 1000;
constexpr std::int64_t max_steps_looked_up = 16'384;
constexpr std::int64_t many_rows = 100'000;  // of a span; above this, count exactly
constexpr std::int64_t max_buckets_counted = 100'000;

/// The spans clipped to the requested range.
std::vector<Span> clip(SpanReader& values, std::vector<Span> spans, const SeriesQuery& query) {
  for (Span& span : spans) {
    const Span whole = span;
    if (query.by_time) {
      if (query.from > 0) span.first = values.step_at(whole, query.from);
      if (query.to < INT64_MAX) span.last = values.step_at(whole, query.to + 1) - 1;
    } else {
      span.first = std::max(span.first, query.from);
      span.last = std::min(span.last, query.to);
    }
  }
  std::erase_if(spans, [](const Span& span) { return span.last < span.first; });
  return spans;
}

/// The highest pyramid level with at least `points` summaries for this number of steps; -1: single steps.
int level_for(std::int64_t steps, std::size_t points) {
  int level = top_level;
  while (level >= 0 && steps / steps_of_level(level) < static_cast<std::int64_t>(points)) --level;
  return level;
}

/// Max number of steps over all ranks.
std::int64_t longest_of(const std::vector<Span>& spans) {
  std::map<std::int64_t, std::int64_t> lengths;
  for (const Span& span : spans) lengths[span.rank] += span.last - span.first + 1;
  std::int64_t longest = 0;
  for (const auto& [rank, length] : lengths) longest = std::max(longest, length);
  return longest;
}

/// Number of level-0 summaries that overlap a span.
std::int64_t count_buckets(Reader& reader, std::int64_t run, const Span& span) {
  const auto between =
      reader.database
          .prepare(
              "SELECT count(*) FROM (SELECT 1 FROM buckets WHERE run = ? AND rank = ? AND attempt = ? "
              "AND bucket >= ? AND bucket <= ? LIMIT ?)")
          .bind(run, span.rank, span.attempt, span.first / bucket_steps, span.last / bucket_steps, max_buckets_counted)
          .value<std::int64_t>();
  return between + 2;
}

/// Finds non-finite values in the buckets that contain any.
class NonFinite {
 public:
  void record(std::int64_t rank, const SeriesBucket& bucket) {
    if (bucket.finite == bucket.count || buckets_.size() >= max_non_finite || steps_ >= max_steps_looked_up) return;
    steps_ += bucket.count;
    buckets_.push_back({rank, bucket.first_step, bucket.step});
  }

  /// Ordered by rank, then by step.
  std::vector<std::pair<std::int64_t, double>> find(SpanReader& values, const std::vector<Span>& spans) {
    std::stable_sort(buckets_.begin(), buckets_.end(), [](const Place& a, const Place& b) { return a.rank < b.rank; });
    std::vector<std::pair<std::int64_t, double>> found;
    for (const Place& place : buckets_) {
      for (const Span& span : spans) {
        if (span.rank != place.rank) continue;
        const std::int64_t first = std::max(place.first, span.first), last = std::min(place.last, span.last);
        if (first > last) continue;
        values.visit(span, first, last, [&](std::int64_t step, std::int64_t, double value) {
          if (!std::isfinite(value)) found.emplace_back(step, value);
          return found.size() < max_non_finite;
        });
        if (found.size() >= max_non_finite) return found;
      }
    }
    return found;
  }

 private:
  struct Place {
    std::int64_t rank, first, last;
  };
  std::vector<Place> buckets_;
  std::int64_t steps_ = 0;
};

/// Reads the series at one pyramid level. Sets `longest` to the max number of steps over all ranks.
Series read_level(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query,
                  std::int64_t& longest) {
  Series series;
  NonFinite non_finite;
  PointGroups groups(query.points);
  RankJoin join(values, spans, level, query);
  join.run([&](std::int64_t rank, const SeriesBucket& bucket) { non_finite.record(rank, bucket); },
           [&](const SeriesBucket& bucket) {
             series.total += bucket.count;
             groups.add(bucket);
             return !query.every_point || groups.buckets() <= query.points;
           });
  longest = join.longest();
  series.too_long = query.every_point && groups.buckets() > query.points;
  if (series.too_long) return series;
  series.sampled = level >= 0 || groups.buckets() > query.points;
  series.points = groups.finish();
  series.non_finite = non_finite.find(values, spans);
  return series;
}

}  // namespace

std::int64_t estimate_rows_read(Reader& reader, const SeriesQuery& query) {
  SpanReader values(reader, query.run, query.key);
  const auto spans = clip(values, effective_spans(reader, query.run, query.rank), query);
  const int level = query.every_point ? -1 : level_for(longest_of(spans), query.points);
  // The edges of a level's range are read from lower levels and single steps.
  const std::int64_t edges = level < 0 ? 0 : 2 * (bucket_steps + level * fan_out);
  std::int64_t total = 0;
  for (const Span& span : spans) {
    const std::int64_t steps = span.last - span.first + 1;
    std::int64_t rows = level < 0 ? steps : steps / steps_of_level(level) + edges;
    // Recorded updates may be sparse, so there may be fewer.
    if (rows > many_rows)
      rows = std::min(rows, count_buckets(reader, query.run, span) * (level < 0 ? bucket_steps : 1) + edges);
    total += std::min(rows, INT64_MAX / 2 - total);
  }
  return total;
}

Series read_series(Reader& reader, const SeriesQuery& query) {
  SpanReader values(reader, query.run, query.key);
  const auto spans = clip(values, effective_spans(reader, query.run, query.rank), query);
  std::int64_t longest = longest_of(spans);
  const int level = query.every_point ? -1 : level_for(longest, query.points);
  Series series = read_level(values, spans, level, query, longest);
  // Recorded updates may be sparse: the range may hold fewer steps than its length.
  const int finer = level < 0 ? level : level_for(longest, query.points);
  if (finer < level) series = read_level(values, spans, finer, query, longest);
  return series;
}

}  // namespace babelring::store
