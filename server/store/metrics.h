#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records.h"

namespace babelring::store {

/// How the values of a key of several ranks are combined into one of the run.
enum class RankAggregate {
  mean,
  sum,       // extensive quantities: tokens, bytes, rates
  host_sum,  // counters of a host, which each of its ranks reports: the greatest of each host, summed over hosts
};

RankAggregate rank_aggregate(std::string_view key);
std::string_view to_string(RankAggregate aggregate);

/// All numbers of a step by key: its members, those of memory_bytes and gpu, and rates derived from them.
std::vector<std::pair<std::string, double>> stored_metrics(const StepRecord& step);

/// Steps are summarised in buckets of this many consecutive updates.
inline constexpr std::int64_t bucket_steps = 64;
inline std::int64_t bucket_of(std::int64_t step) {
  return step / bucket_steps;
}

/// Summary of one key over one bucket; stored as is (little-endian).
struct BucketEntry {
  double min = 0, max = 0, sum = 0;  // of the finite values
  std::uint32_t finite = 0;
  std::uint16_t min_offset = 0, max_offset = 0;  // step of the extreme, from the bucket's first possible step
};
static_assert(sizeof(BucketEntry) == 32);

/// The values of one step in a blob, which need not be aligned.
class PackedDoubles {
 public:
  explicit PackedDoubles(std::string_view bytes) : bytes_(bytes) {}
  std::size_t size() const { return bytes_.size() / sizeof(double); }
  double operator[](std::size_t index) const;

 private:
  std::string_view bytes_;
};

void add_to_bucket(BucketEntry& entry, double value, std::int64_t offset);

}  // namespace babelring::store
