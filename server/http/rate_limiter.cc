#include "server/http/rate_limiter.h"

#include <algorithm>
#include <vector>

namespace babelring::http {

double RateLimiter::refilled(const Bucket& bucket, Time now) const {
  const double seconds = std::max(0.0, std::chrono::duration<double>(now - bucket.seen).count());
  return std::min(options_.burst * bucket.scale, bucket.permits + seconds * options_.a_second * bucket.scale);
}

void RateLimiter::make_room(Time now) {
  std::erase_if(buckets_,
                [&](const auto& entry) { return refilled(entry.second, now) >= options_.burst * entry.second.scale; });
  if (buckets_.size() < max_buckets) return;
  const auto fill = [&](const auto& entry) {
    return refilled(entry->second, now) / (options_.burst * entry->second.scale);
  };
  std::vector<std::unordered_map<std::string, Bucket>::const_iterator> entries;
  for (auto entry = buckets_.cbegin(); entry != buckets_.cend(); ++entry) entries.push_back(entry);
  const auto last = entries.begin() + static_cast<std::ptrdiff_t>(max_buckets / 16);
  std::nth_element(entries.begin(), last, entries.end(),
                   [&](const auto& a, const auto& b) { return fill(a) > fill(b); });
  std::for_each(entries.begin(), last, [&](const auto& entry) { buckets_.erase(entry); });
}

RateLimiter::Verdict RateLimiter::take(const std::string& name, Time now, double scale) {
  if (!limited()) return {};
  const std::lock_guard lock(mutex_);
  auto found = buckets_.find(name);
  if (found == buckets_.end()) {
    if (buckets_.size() >= max_buckets) make_room(now);
    found = buckets_.emplace(name, Bucket{options_.burst * scale, now, scale}).first;
  }
  Bucket& bucket = found->second;
  if (scale > bucket.scale) bucket.permits += (scale - bucket.scale) * options_.burst;
  bucket.scale = scale;
  bucket.permits = refilled(bucket, now);
  bucket.seen = now;
  Verdict verdict;
  verdict.allowed = bucket.permits >= 1;
  if (verdict.allowed) bucket.permits -= 1;
  verdict.left = bucket.permits;
  verdict.wait_seconds = verdict.allowed ? 0 : (1 - bucket.permits) / (options_.a_second * scale);
  verdict.full_seconds = (options_.burst * scale - bucket.permits) / (options_.a_second * scale);
  return verdict;
}

std::size_t RateLimiter::buckets() const {
  const std::lock_guard lock(mutex_);
  return buckets_.size();
}

}  // namespace babelring::http
