#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/records.h"

namespace babelring::store {

/// How the values of several ranks are combined into a value of the run.
enum class RankAggregate {
  mean,
  sum,       // extensive quantities: tokens, bytes, rates
  host_sum,  // host counters, reported by every rank of a host: max within each host, then summed over hosts
};

RankAggregate rank_aggregate(std::string_view key);
std::string_view to_string(RankAggregate aggregate);

/// All values of a step by key: its own members, the members of memory_bytes and gpu, and derived rates.
std::vector<std::pair<std::string, double>> stored_metrics(const StepRecord& step);

/// Number of consecutive updates in a bucket.
inline constexpr std::int64_t bucket_steps = 64;
inline std::int64_t bucket_of(std::int64_t step) {
  return step / bucket_steps;
}

/// Summary of one key over one bucket. Stored as raw little-endian bytes.
struct BucketEntry {
  double min = 0, max = 0, sum = 0;              // over finite values
  std::uint32_t finite = 0;                      // number of finite values
  std::uint16_t min_offset = 0, max_offset = 0;  // step of min and max, relative to the bucket's start
};
static_assert(sizeof(BucketEntry) == 32);

/// View of a step's values in a blob. The blob need not be aligned.
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
