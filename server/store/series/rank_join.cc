#include "server/store/series/rank_join.h"

#include <algorithm>

namespace babelring::store {
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
