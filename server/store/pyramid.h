#pragma once

#include <cstdint>
#include <set>

#include "server/store/metrics.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Above the summaries of 64 steps (level 0, table `buckets`) stand those of 512, 4096 and 32768 (levels 1 to 3, table
/// `pyramid`), each of eight of the level below. A long run is then drawn from a few thousand rows.
inline constexpr int top_level = 3;
inline constexpr std::int64_t fan_out = 8;

/// Steps that one summary of a level stands for.
constexpr std::int64_t steps_of_level(int level) {
  std::int64_t steps = bucket_steps;
  for (int i = 0; i < level; ++i) steps *= fan_out;
  return steps;
}

struct RankSteps {
  std::int64_t run = 0, rank = 0, attempt = 0;
};

/// Brings the levels above up to date after these summaries of 64 steps have changed. Summaries that `last_step` has
/// not left behind yet are not made; one over mixed layouts or with a part missing is removed. On the writer's thread.
void raise_pyramid(Database& database, const RankSteps& of, std::set<std::int64_t> changed, std::int64_t last_step);

}  // namespace babelring::store
