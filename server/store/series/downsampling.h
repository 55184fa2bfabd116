#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "server/store/metrics.h"
#include "server/store/sqlite.h"

namespace babelring::store {

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

void add_to_bucket(BucketEntry& entry, double value, std::int64_t offset);

/// Levels of downsampling. Level 0 (table `buckets`) has summaries of 64 steps. Levels 1 to 3 (table `pyramid`) have
/// summaries of 512, 4096 and 32768 steps; each combines eight summaries of the level below. A plot of a long run thus
/// reads only a few thousand rows.
inline constexpr int top_level = 3;
inline constexpr std::int64_t fan_out = 8;

/// Number of steps in a summary of a level.
constexpr std::int64_t steps_of_level(int level) {
  std::int64_t steps = bucket_steps;
  for (int i = 0; i < level; ++i) steps *= fan_out;
  return steps;
}

struct RankAttempt {
  std::int64_t run = 0, rank = 0, attempt = 0;
};

/// Writes the level-0 summary of a bucket, or deletes it if the steps have different layouts. Call this on the writer's
/// thread.
void summarise_steps(Database& database, const RankAttempt& source, std::int64_t bucket);

/// Updates levels 1 to 3 after the level-0 summaries with the indices `changed` have changed. A summary is written only
/// once `last_step` is past its range. A summary with mixed layouts or missing parts is deleted. Call this on the
/// writer's thread.
void update_summaries(Database& database, const RankAttempt& source, std::set<std::int64_t> changed,
                      std::int64_t last_step);

/// One step of a rank and key, or a summary of consecutive steps.
struct SeriesBucket {
  std::int64_t index = 0;  // join key across ranks: the step, or the bucket number in downsampled reads
  std::int64_t attempt = 0, first_step = 0, step = 0, time_ms = 0;
  std::int64_t count = 0, finite = 0;
  double min = 0, max = 0, sum = 0;
};

/// Adds the value of a later step to `bucket`.
void add(SeriesBucket& bucket, std::int64_t step, std::int64_t time_ms, double value);

/// Merges the later bucket `later` into `into`.
void absorb(SeriesBucket& into, const SeriesBucket& later);

/// One point, or the summary of several. `min`, `average` and `max` are NaN if no value was finite. For sums over
/// ranks, `min` and `max` are the sums of the ranks' bounds.
struct SeriesPoint {
  std::int64_t step = 0, time_ms = 0;  // of the last step
  std::int64_t count = 0, finite = 0;
  double min = 0, average = 0, max = 0;
};

/// Downsamples a stream of buckets of unknown length to at most `points` points. Each point summarises the same number
/// of consecutive buckets. Memory is bounded by eight groups per point.
class PointGroups {
 public:
  explicit PointGroups(std::size_t points);
  void add(const SeriesBucket& bucket);
  /// Number of buckets added.
  std::size_t buckets() const { return buckets_; }
  std::vector<SeriesPoint> finish();

 private:
  struct Group {
    SeriesPoint point;
    double sum = 0, weight = 0;
    std::size_t buckets = 0;
    void add(const SeriesBucket& bucket);
    void add(const Group& later);
  };
  void halve();

  const std::size_t points_, capacity_;
  std::size_t buckets_ = 0, buckets_per_group_ = 1;
  std::vector<Group> groups_;
};

}  // namespace babelring::store
