#include "server/store/series/span_reader.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

namespace babelring::store {
namespace {

constexpr std::size_t min_summaries = 16, max_summaries = 1024;  // per read

}  // namespace

std::vector<Span> effective_spans(Reader& reader, std::int64_t run, std::optional<std::int64_t> rank) {
  Statement rows = reader.database.prepare(
      "SELECT rank, attempt, first_update, last_update, host FROM ranks WHERE run = ? AND (?2 < 0 OR rank = ?2) AND "
      "last_update > 0 ORDER BY rank, attempt DESC");
  rows.bind(run, rank.value_or(-1));
  std::vector<Span> spans;
  Span span;
  std::int64_t resumed_at = std::numeric_limits<std::int64_t>::max();
  while (rows.next(span.rank, span.attempt, span.first, span.last, span.host)) {
    if (!spans.empty() && spans.back().rank != span.rank) resumed_at = std::numeric_limits<std::int64_t>::max();
    const std::int64_t started = span.first;
    span.last = std::min(span.last, resumed_at - 1);
    resumed_at = std::min(resumed_at, started);
    spans.push_back(span);
  }
  std::erase_if(spans, [](const Span& each) { return each.last < each.first; });
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.rank, a.attempt) < std::pair(b.rank, b.attempt);
  });
  return spans;
}

bool SpanReader::visit(const Span& span, std::int64_t first, std::int64_t last, const Visit& visit) {
  Statement rows = reader_.database.prepare(
      "SELECT step, time_ms, layout, vals FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND "
      "step <= ? ORDER BY step");
  rows.bind(run_, span.rank, span.attempt, first, last);
  std::int64_t step = 0, time_ms = 0, layout = 0, known_layout = -1;
  std::string_view blob;
  std::optional<std::size_t> place;
  while (rows.next(step, time_ms, layout, blob)) {
    if (layout != known_layout) {
      known_layout = layout;
      place = reader_.layouts.place(layout, key_);
    }
    if (!place) continue;
    const PackedDoubles values(blob);
    if (*place < values.size() && !visit(step, time_ms, values[*place])) return false;
  }
  return true;
}

std::vector<SeriesBucket> SpanReader::summaries(const Span& span, std::int64_t first, std::int64_t last, int level) {
  Statement rows = reader_.database.prepare(
      level == 0 ? "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM buckets WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? ORDER BY bucket LIMIT ?"
                 : "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM pyramid WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? AND level = ? ORDER BY bucket LIMIT ?");
  const std::int64_t steps = steps_of_level(level);
  const std::int64_t begin = (first + steps - 1) / steps, end = (last + 1) / steps;
  if (level == 0) {
    rows.bind(run_, span.rank, span.attempt, begin, end, summaries_at_once_);
  } else {
    rows.bind(run_, span.rank, span.attempt, begin, end, level, summaries_at_once_);
  }
  std::vector<SeriesBucket> found;
  SeriesBucket summary{.attempt = span.attempt};
  std::int64_t count = 0, layout = 0;
  std::string_view blob;
  while (rows.next(summary.index, summary.first_step, summary.step, count, summary.time_ms, layout, blob)) {
    SeriesBucket& bucket = found.emplace_back(summary);
    const auto place = reader_.layouts.place(layout, key_);
    if (place && (*place + 1) * sizeof(BucketEntry) <= blob.size()) {
      BucketEntry entry;
      std::memcpy(&entry, blob.data() + *place * sizeof entry, sizeof entry);
      bucket.count = count;
      bucket.finite = entry.finite;
      bucket.min = entry.min;
      bucket.max = entry.max;
      bucket.sum = entry.sum;
    }
  }
  return found;
}

bool SpanReader::descend(const Span& span, std::int64_t first, std::int64_t last, int level, const Take& take) {
  if (level < 0) {
    return visit(span, first, last, [&](std::int64_t step, std::int64_t time_ms, double value) {
      SeriesBucket bucket;
      bucket.attempt = span.attempt;
      add(bucket, step, time_ms, value);
      return take(bucket);
    });
  }
  const std::int64_t steps = steps_of_level(level);
  std::int64_t next = first;  // everything before it has been read
  for (bool all = false; !all;) {
    const auto found = summaries(span, next, last, level);
    all = std::ssize(found) < summaries_at_once_;
    for (const SeriesBucket& bucket : found) {
      const std::int64_t begin = bucket.index * steps;
      if (begin > next && !descend(span, next, begin - 1, level - 1, take)) return false;
      if (bucket.count > 0 && !take(bucket)) return false;
      next = begin + steps;
    }
  }
  return next > last || descend(span, next, last, level - 1, take);
}

std::int64_t SpanReader::read(const Span& span, std::int64_t first, int level, std::size_t max_new,
                              std::vector<SeriesBucket>& buckets) {
  const std::int64_t steps = level < 0 ? 1 : steps_of_level(level);
  summaries_at_once_ = static_cast<std::int64_t>(std::clamp(max_new, min_summaries, max_summaries));
  std::int64_t next = first;
  std::size_t begun = 0;
  const bool all = descend(span, first, span.last, level, [&](const SeriesBucket& part) {
    const std::int64_t index = part.step / steps;
    if (buckets.empty() || buckets.back().index != index) {
      if (begun++ == max_new) return false;
      buckets.push_back(part);
      buckets.back().index = index;
    } else {
      absorb(buckets.back(), part);
    }
    next = part.step + 1;
    return true;
  });
  return all ? span.last + 1 : next;
}

std::int64_t SpanReader::step_at(const Span& span, std::int64_t time_ms) {
  std::int64_t low = span.first, high = span.last + 1;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    Statement row = reader_.database.prepare(
        "SELECT step, time_ms FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND step <= ? "
        "ORDER BY step LIMIT 1");
    row.bind(run_, span.rank, span.attempt, middle, span.last);
    std::int64_t step = 0, step_time_ms = 0;
    if (!row.next(step, step_time_ms) || step_time_ms >= time_ms) {
      high = middle;
    } else {
      low = step + 1;
    }
  }
  return low;
}

}  // namespace babelring::store
