#include "server/store/downsampling.h"

#include <cstring>
#include <string>
#include <vector>

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

Sum sum_of_parts(Database& database, const RankSteps& of, int level, std::int64_t bucket) {
  Statement rows = database.prepare(
      level == 1 ? "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM buckets WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? ORDER BY bucket"
                 : "SELECT bucket, first_step, last_step, count, time_ms, layout, vals FROM pyramid WHERE run = ? AND "
                   "rank = ? AND attempt = ? AND bucket >= ? AND bucket < ? AND level = ? ORDER BY bucket");
  const std::int64_t first = bucket * fan_out;
  if (level == 1) {
    rows.bind(of.run, of.rank, of.attempt, first, first + fan_out);
  } else {
    rows.bind(of.run, of.rank, of.attempt, first, first + fan_out, level - 1);
  }
  Sum sum;
  Part part;
  while (rows.next(part.bucket, part.first_step, part.last_step, part.count, part.time_ms, part.layout, part.vals)) {
    sum.add(part, (part.bucket - first) * steps_of_level(level - 1));
  }
  return sum;
}

void rebuild(Database& database, const RankSteps& of, int level, std::int64_t bucket) {
  const Sum sum = sum_of_parts(database, of, level, bucket);
  if (sum.mixed || sum.parts < fan_out) {
    database.prepare("DELETE FROM pyramid WHERE run = ? AND rank = ? AND attempt = ? AND level = ? AND bucket = ?")
        .bind(of.run, of.rank, of.attempt, level, bucket)
        .run();
    return;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(sum.entries.data()),
                               sum.entries.size() * sizeof(BucketEntry));
  database
      .prepare(
          "INSERT OR REPLACE INTO pyramid(run, rank, attempt, level, bucket, first_step, last_step, count, time_ms, "
          "layout, vals) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(of.run, of.rank, of.attempt, level, bucket, sum.first_step, sum.last_step, sum.count, sum.time_ms,
            sum.layout, Blob{bytes})
      .run();
}

}  // namespace

void update_pyramid(Database& database, const RankSteps& of, std::set<std::int64_t> changed, std::int64_t last_step) {
  for (int level = 1; level <= top_level && !changed.empty(); ++level) {
    std::set<std::int64_t> raised;
    for (const std::int64_t part : changed) {
      const std::int64_t bucket = part / fan_out;
      if (bucket >= last_step / steps_of_level(level) || !raised.insert(bucket).second) continue;
      rebuild(database, of, level, bucket);
    }
    changed = std::move(raised);
  }
}

}  // namespace babelring::store
