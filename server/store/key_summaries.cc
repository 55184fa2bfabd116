#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "server/store/series.h"

namespace babelring::store {
namespace {

/// Collects summaries by key, in the order in which keys appear.
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

void note(KeySummary& summary, std::int64_t count, double min, std::int64_t min_step, double max,
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

void note_steps(Reader& reader, std::int64_t run, const Span& span, std::int64_t first, std::int64_t last,
                Collector& collector) {
  Statement rows = reader.database.prepare(
      "SELECT step, layout, vals FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND step <= ? "
      "ORDER BY step");
  rows.bind(run, span.rank, span.attempt, first, last);
  while (rows.step()) {
    const auto& keys = reader.layouts.keys(rows.integer(1));
    const PackedDoubles values(rows.blob(2));
    for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i) {
      if (!std::isfinite(values[i])) continue;
      KeySummary& summary = collector.at(keys[i]);
      if (summary.count == 0) summary.first = values[i];
      summary.last = values[i];
      note(summary, 1, values[i], rows.integer(0), values[i], rows.integer(0));
    }
  }
}

void note_span(Reader& reader, std::int64_t run, const Span& span, Collector& collector) {
  // The first step gives `first`; summaries follow from the next whole bucket, single steps fill the rest.
  const std::int64_t first_whole = span.first / bucket_steps + 1;
  std::int64_t next = first_whole * bucket_steps;
  note_steps(reader, run, span, span.first, std::min(next - 1, span.last), collector);
  {
    Statement rows = reader.database.prepare(
        "SELECT bucket, layout, vals FROM buckets WHERE run = ? AND rank = ? AND attempt = ? AND bucket >= ? AND "
        "bucket < ? ORDER BY bucket");
    rows.bind(run, span.rank, span.attempt, first_whole, bucket_of(span.last));
    while (rows.step()) {
      const std::int64_t base = rows.integer(0) * bucket_steps;
      if (base > next) note_steps(reader, run, span, next, base - 1, collector);
      next = base + bucket_steps;
      const auto& keys = reader.layouts.keys(rows.integer(1));
      const std::string_view blob = rows.blob(2);
      for (std::size_t i = 0; i < std::min(keys.size(), blob.size() / sizeof(BucketEntry)); ++i) {
        BucketEntry entry;
        std::memcpy(&entry, blob.data() + i * sizeof entry, sizeof entry);
        if (entry.finite == 0) continue;
        note(collector.at(keys[i]), entry.finite, entry.min, base + entry.min_offset, entry.max,
             base + entry.max_offset);
      }
    }
  }
  if (next <= span.last) note_steps(reader, run, span, next, span.last, collector);
}

void append_value(std::string& csv, double value) {
  if (std::isnan(value)) {
    csv += "nan";
  } else if (std::isinf(value)) {
    csv += value > 0 ? "inf" : "-inf";
  } else {
    fmt::format_to(std::back_inserter(csv), "{}", value);
  }
}

}  // namespace

std::vector<KeySummary> summarise_keys(Reader& reader, std::int64_t run, std::int64_t rank) {
  Collector collector;
  for (const Span& span : effective_spans(reader, run, rank)) note_span(reader, run, span, collector);
  return collector.take();
}

std::vector<std::string> all_keys(Reader& reader, std::int64_t run) {
  std::vector<std::int64_t> layouts;
  {
    Statement rows = reader.database.prepare("SELECT layout FROM run_layouts WHERE run = ? ORDER BY layout");
    rows.bind(run);
    while (rows.step()) layouts.push_back(rows.integer(0));
  }
  std::vector<std::string> keys;
  for (const std::int64_t layout : layouts) {
    for (const std::string& key : reader.layouts.keys(layout)) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

bool export_rows(Reader& reader, std::int64_t run, const std::vector<std::string>& keys, std::size_t rows,
                 ExportCursor& cursor, std::string& csv) {
  Statement steps = reader.database.prepare(
      "SELECT rank, attempt, step, time_ms, layout, vals FROM steps WHERE run = ?1 AND (rank, attempt, step) > "
      "(?2, ?3, ?4) ORDER BY rank, attempt, step LIMIT ?5");
  steps.bind(run, cursor.rank, cursor.attempt, cursor.step, static_cast<std::int64_t>(rows));
  bool any = false;
  std::int64_t layout = -1;
  std::vector<std::optional<std::size_t>> places(keys.size());
  while (steps.step()) {
    any = true;
    cursor = {steps.integer(0), steps.integer(1), steps.integer(2)};
    if (steps.integer(4) != layout) {
      layout = steps.integer(4);
      for (std::size_t i = 0; i < keys.size(); ++i) places[i] = reader.layouts.place(layout, keys[i]);
    }
    fmt::format_to(std::back_inserter(csv), "{},{},{},{}", cursor.rank, cursor.attempt, cursor.step, steps.integer(3));
    const PackedDoubles values(steps.blob(5));
    for (const auto& place : places) {
      csv += ',';
      if (place && *place < values.size()) append_value(csv, values[*place]);
    }
    csv += '\n';
  }
  return any;
}

}  // namespace babelring::store
