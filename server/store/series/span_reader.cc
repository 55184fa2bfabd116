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

namespace {

constexpr std::size_t min_chunk = 16, max_chunk = 4096;

double average(const SeriesBucket& bucket) {
  return bucket.sum / static_cast<double>(bucket.finite);
}

/// Merges the values of another rank over the same steps.
void absorb_rank(SeriesBucket& into, const SeriesBucket& other) {
  if (other.finite == 0) return;
  into.min = into.finite == 0 ? other.min : std::min(into.min, other.min);
  into.max = into.finite == 0 ? other.max : std::max(into.max, other.max);
  into.sum += other.sum;
  into.finite += other.finite;
}

void extend(SeriesBucket& into, const SeriesBucket& other) {
  into.count = std::min(into.count, other.count);
  const bool finite = into.finite > 0 && other.finite > 0;
  into.min += other.min;
  into.max += other.max;
  into.sum = finite ? average(into) + average(other) : 0;
  into.finite = finite ? 1 : 0;
}

}  // namespace

RankStream::RankStream(SpanReader& values, std::vector<Span> spans, int level, std::size_t chunk)
    : values_(values), spans_(std::move(spans)), level_(level), chunk_(chunk), next_(spans_.front().first) {}

const SeriesBucket* RankStream::peek() {
  while (at_ + 1 >= buckets_.size() && span_ < spans_.size()) fill();
  return at_ < buckets_.size() ? &buckets_[at_] : nullptr;
}

void RankStream::fill() {
  buckets_.erase(buckets_.begin(), buckets_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  next_ = values_.read(spans_[span_], next_, level_, chunk_, buckets_);
  if (next_ > spans_[span_].last && ++span_ < spans_.size()) next_ = spans_[span_].first;
}

RankJoin::RankJoin(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query)
    : single_(query.rank.has_value()), how_(rank_aggregate(query.key)) {
  std::map<std::int64_t, std::vector<Span>> by_rank;
  for (const Span& span : spans) by_rank[span.rank].push_back(span);
  const std::size_t chunk = std::clamp(max_held / std::max<std::size_t>(by_rank.size(), 1), min_chunk, max_chunk);
  for (auto& [rank, own] : by_rank) streams_.emplace_back(values, std::move(own), level, chunk);
  counts_.resize(streams_.size());
  if (!single_ && how_ != RankAggregate::mean) count_expected(values, spans, level, query);
}

void RankJoin::count_expected(SpanReader& values, const std::vector<Span>& spans, int level, const SeriesQuery& query) {
  std::vector<SeriesBucket> first;
  for (const Span& span : spans) {
    first.clear();
    values.read(span, span.first, level, 1, first);
    if (!first.empty()) ++expected_[span.attempt];
  }
  expected_[query.current_attempt] = std::max(expected_[query.current_attempt], query.world_size);
}

void RankJoin::advance(std::size_t stream) {
  if (const SeriesBucket* bucket = streams_[stream].peek()) next_.emplace(bucket->index, stream);
}

bool RankJoin::collect() {
  for (const std::size_t stream : taken_) {
    streams_[stream].pop();
    advance(stream);
  }
  taken_.clear();
  present_.clear();
  if (next_.empty()) return false;
  const std::int64_t index = next_.top().first;
  while (!next_.empty() && next_.top().first == index) {
    const std::size_t stream = next_.top().second;
    next_.pop();
    taken_.push_back(stream);
    const SeriesBucket* bucket = streams_[stream].peek();
    present_.push_back({&streams_[stream], bucket});
    counts_[stream] += bucket->count;
  }
  return true;
}

void RankJoin::run(const Inspect& inspect, const Take& take) {
  for (std::size_t stream = 0; stream < streams_.size(); ++stream) advance(stream);
  while (collect()) {
    for (const Present& present : present_) inspect(present.stream->rank(), *present.bucket);
    if (!join(take)) return;
  }
}

std::size_t RankJoin::held() const {
  std::size_t held = 0;
  for (const RankStream& stream : streams_) held += stream.held();
  return held;
}

std::int64_t RankJoin::longest() const {
  return counts_.empty() ? 0 : *std::max_element(counts_.begin(), counts_.end());
}

bool RankJoin::join(const Take& take) const {
  if (single_) return take(*present_.front().bucket);
  if (how_ == RankAggregate::mean) {
    SeriesBucket result = *present_.front().bucket;
    for (std::size_t i = 1; i < present_.size(); ++i) absorb_rank(result, *present_[i].bucket);
    return take(result);
  }
  // Skip incomplete sums: a sum over a subset of the ranks would look like a drop.
  const auto expected = expected_.find(present_.front().bucket->attempt);
  if (expected != expected_.end() && std::ssize(present_) < expected->second) return true;
  return take(how_ == RankAggregate::sum ? sum() : sum_of_hosts());
}

SeriesBucket RankJoin::sum() const {
  SeriesBucket result = *present_.front().bucket;
  for (std::size_t i = 1; i < present_.size(); ++i) extend(result, *present_[i].bucket);
  return result;
}

SeriesBucket RankJoin::sum_of_hosts() const {
  std::map<std::string_view, SeriesBucket> hosts;
  for (const Present& present : present_) {
    const auto [host, first] = hosts.try_emplace(present.stream->host(), *present.bucket);
    if (!first && average(*present.bucket) > average(host->second)) host->second = *present.bucket;
  }
  auto host = hosts.begin();
  SeriesBucket result = host->second;
  while (++host != hosts.end()) extend(result, host->second);
  return result;
}

}  // namespace babelring::store
