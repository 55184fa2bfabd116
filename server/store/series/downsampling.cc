#include "server/store/series/downsampling.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace babelring::store {
namespace {

static_assert(steps_of_level(top_level) <= 65'536, "offsets of extremes have 16 bits");

/// A stored summary of one level.
struct Part {
  std::int64_t bucket = 0, first_step = 0, last_step = 0, count = 0, time_ms = 0, layout = 0;
  std::string_view vals;  // valid until the next row
};

/// Combines eight summaries into one.
struct Sum {
  std::vector<BucketEntry> entries;
  std::int64_t parts = 0, layout = 0, first_step = 0, last_step = 0, count = 0, time_ms = 0;
  bool mixed = false;

  void add(const Part& part_row, std::int64_t offset) {
    const std::string_view blob = part_row.vals;
    if (parts++ == 0) {
      layout = part_row.layout;
      first_step = part_row.first_step;
      entries.resize(blob.size() / sizeof(BucketEntry));
    }
    mixed = mixed || layout != part_row.layout || blob.size() != entries.size() * sizeof(BucketEntry);
    if (mixed) return;
    last_step = part_row.last_step;
    count += part_row.count;
    time_ms = part_row.time_ms;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      BucketEntry part;
      std::memcpy(&part, blob.data() + i * sizeof part, sizeof part);
      absorb(entries[i], part, offset);
    }
  }

  static void absorb(BucketEntry& into, const BucketEntry& part, std::int64_t offset) {
    if (part.finite == 0) return;
    if (into.finite == 0 || part.min < into.min) {
      into.min = part.min;
      into.min_offset = static_cast<std::uint16_t>(part.min_offset + offset);
    }
    if (into.finite == 0 || part.max > into.max) {
      into.max = part.max;
      into.max_offset = static_cast<std::uint16_t>(part.max_offset + offset);
    }
    into.sum += part.sum;
    into.finite += part.finite;
  }
};

Sum sum_of_parts(Database& database, const RankAttempt& source, int level, std::int64_t bucket) {
  Statement rows = database.prepare(
      level == 1 ? "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM buckets WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? ORDER BY bucket"
                 : "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM pyramid WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? AND level = ? ORDER BY bucket");
  const std::int64_t first = bucket * fan_out;
  if (level == 1) {
    rows.bind(source.run, source.rank, source.attempt, first, first + fan_out);
  } else {
    rows.bind(source.run, source.rank, source.attempt, first, first + fan_out, level - 1);
  }
  Sum sum;
  Part part;
  while (rows.next(part.bucket, part.first_step, part.last_step, part.count, part.time_ms, part.layout, part.vals)) {
    sum.add(part, (part.bucket - first) * steps_of_level(level - 1));
  }
  return sum;
}

void rebuild(Database& database, const RankAttempt& source, int level, std::int64_t bucket) {
  const Sum sum = sum_of_parts(database, source, level, bucket);
  if (sum.mixed || sum.parts < fan_out) {
    database.prepare("DELETE FROM pyramid WHERE run = ? AND rank = ? AND attempt = ? AND level = ? AND bucket = ?")
        .bind(source.run, source.rank, source.attempt, level, bucket)
        .run();
    return;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(sum.entries.data()),
                               sum.entries.size() * sizeof(BucketEntry));
  database
      .prepare(
          "INSERT OR REPLACE INTO pyramid(run, rank, attempt, level, bucket, first_step, last_step, count, time_ms, "
          "layout, vals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(source.run, source.rank, source.attempt, level, bucket, sum.first_step, sum.last_step, sum.count,
            sum.time_ms, sum.layout, Blob{bytes})
      .run();
}

constexpr std::size_t groups_per_point = 8, max_spare_groups = 160'000;

void widen(SeriesPoint& point, double min, double max, std::int64_t finite) {
  point.min = point.finite == 0 ? min : std::min(point.min, min);
  point.max = point.finite == 0 ? max : std::max(point.max, max);
  point.finite += finite;
}

}  // namespace

void add_to_bucket(BucketEntry& entry, double value, std::int64_t offset) {
  if (!std::isfinite(value)) return;
  if (entry.finite == 0 || value < entry.min) {
    entry.min = value;
    entry.min_offset = static_cast<std::uint16_t>(offset);
  }
  if (entry.finite == 0 || value > entry.max) {
    entry.max = value;
    entry.max_offset = static_cast<std::uint16_t>(offset);
  }
  entry.sum += value;
  ++entry.finite;
}

void summarise_steps(Database& database, const RankAttempt& source, std::int64_t bucket) {
  const std::int64_t base = bucket * bucket_steps;
  std::vector<BucketEntry> entries;
  std::int64_t count = 0, layout = 0, first = 0, last = 0, time_ms = 0, step_layout = 0;
  bool mixed = false;
  std::string_view blob;
  {
    Statement rows = database.prepare(
        "SELECT step, time_ms, layout, vals FROM steps WHERE run = ? AND rank = ? AND attempt = ? AND step >= ? AND "
        "step < ? ORDER BY step");
    rows.bind(source.run, source.rank, source.attempt, base, base + bucket_steps);
    while (rows.next(last, time_ms, step_layout, blob)) {
      if (count > 0 && step_layout != layout) {
        mixed = true;  // no summary: readers use the single steps
        break;
      }
      layout = step_layout;
      if (count++ == 0) first = last;
      const PackedDoubles values(blob);
      entries.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) add_to_bucket(entries[i], values[i], last - base);
    }
  }
  if (count == 0 || mixed) {
    database.prepare("DELETE FROM buckets WHERE run = ? AND rank = ? AND attempt = ? AND bucket = ?")
        .bind(source.run, source.rank, source.attempt, bucket)
        .run();
    return;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(BucketEntry));
  database
      .prepare(
          "INSERT OR REPLACE INTO buckets(run, rank, attempt, bucket, first_step, last_step, count, time_ms, "
          "layout, vals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(source.run, source.rank, source.attempt, bucket, first, last, count, time_ms, layout, Blob{bytes})
      .run();
}

void update_summaries(Database& database, const RankAttempt& source, std::set<std::int64_t> changed,
                      std::int64_t last_step) {
  for (int level = 1; level <= top_level && !changed.empty(); ++level) {
    std::set<std::int64_t> raised;
    for (const std::int64_t part : changed) {
      const std::int64_t bucket = part / fan_out;
      if (bucket >= last_step / steps_of_level(level) || !raised.insert(bucket).second) continue;
      rebuild(database, source, level, bucket);
    }
    changed = std::move(raised);
  }
}

void add(SeriesBucket& bucket, std::int64_t step, std::int64_t time_ms, double value) {
  if (bucket.count++ == 0) bucket.first_step = step;
  bucket.step = step;
  bucket.time_ms = time_ms;
  if (!std::isfinite(value)) return;
  bucket.min = bucket.finite == 0 ? value : std::min(bucket.min, value);
  bucket.max = bucket.finite == 0 ? value : std::max(bucket.max, value);
  bucket.sum += value;
  ++bucket.finite;
}

void absorb(SeriesBucket& into, const SeriesBucket& later) {
  into.attempt = later.attempt;
  into.step = later.step;
  into.time_ms = later.time_ms;
  into.count += later.count;
  if (later.finite == 0) return;
  into.min = into.finite == 0 ? later.min : std::min(into.min, later.min);
  into.max = into.finite == 0 ? later.max : std::max(into.max, later.max);
  into.sum += later.sum;
  into.finite += later.finite;
}

PointGroups::PointGroups(std::size_t points)
    : points_(std::max<std::size_t>(points, 1)),
      capacity_(std::max(points_, std::min(points_ * groups_per_point, max_spare_groups))) {}

void PointGroups::Group::add(const SeriesBucket& bucket) {
  ++buckets;
  point.step = bucket.step;
  point.time_ms = bucket.time_ms;
  point.count += bucket.count;
  if (bucket.finite == 0) return;
  widen(point, bucket.min, bucket.max, bucket.finite);
  // The average of a single value is bit-identical to the stored value.
  point.average = point.finite == 1 ? bucket.sum : 0;
  sum += bucket.sum / static_cast<double>(bucket.finite) * static_cast<double>(bucket.count);
  weight += static_cast<double>(bucket.count);
}

void PointGroups::Group::add(const Group& later) {
  buckets += later.buckets;
  point.step = later.point.step;
  point.time_ms = later.point.time_ms;
  point.count += later.point.count;
  if (later.point.finite == 0) return;
  const bool only = point.finite == 0;
  widen(point, later.point.min, later.point.max, later.point.finite);
  if (only) point.average = later.point.average;
  sum += later.sum;
  weight += later.weight;
}

void PointGroups::add(const SeriesBucket& bucket) {
  ++buckets_;
  if (groups_.size() == capacity_ && groups_.back().buckets == buckets_per_group_) halve();
  if (groups_.empty() || groups_.back().buckets == buckets_per_group_) groups_.emplace_back();
  groups_.back().add(bucket);
}

void PointGroups::halve() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < groups_.size(); i += 2) {
    Group joined = groups_[i];
    if (i + 1 < groups_.size()) joined.add(groups_[i + 1]);
    groups_[kept++] = joined;
  }
  groups_.resize(kept);
  buckets_per_group_ *= 2;
}

std::vector<SeriesPoint> PointGroups::finish() {
  const std::size_t together = (groups_.size() + points_ - 1) / points_;
  std::vector<SeriesPoint> points;
  for (std::size_t i = 0; i < groups_.size(); i += together) {
    Group group = groups_[i];
    for (std::size_t j = i + 1; j < std::min(i + together, groups_.size()); ++j) group.add(groups_[j]);
    SeriesPoint point = group.point;
    if (point.finite == 0) point.min = point.max = point.average = std::nan("");
    if (point.finite > 1) point.average = group.sum / group.weight;
    points.push_back(point);
  }
  groups_ = {};
  return points;
}

}  // namespace babelring::store
