#include "server/store/series/key_summaries.h"

#include <algorithm>
#include <cmath>
#include <cstring>
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

}  // namespace babelring::store
