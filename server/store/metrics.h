#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/base/records.h"

namespace babelring::store {

/// How a key's values of several ranks make one value of the run.
enum class RankAggregate {
  mean,
  sum,       // extensive quantities: tokens, bytes, rates
  host_sum,  // counters of a host's interfaces, which every rank of the host reports: greatest of a host, then sum
};

RankAggregate rank_aggregate(std::string_view key);
std::string_view to_string(RankAggregate aggregate);

/// Everything numeric of a step by key: its own members, memory by purpose, and the rates derived from them.
std::vector<std::pair<std::string, double>> stored_metrics(const StepRecord& step);

/// Steps are summarised in groups of this many consecutive updates.
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

/// The values of one step in the bytes of a blob, without alignment.
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
