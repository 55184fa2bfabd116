#pragma once

#include <cstdint>
#include <set>

#include "server/store/metrics.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Downsampling pyramid. Level 0 (table `buckets`) has summaries of 64 steps. Levels 1 to 3 (table `pyramid`) have
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

struct RankSteps {
  std::int64_t run = 0, rank = 0, attempt = 0;
};

/// Updates levels 1 to 3 after the level-0 summaries with the indices `changed` have changed. A summary is written only
/// once `last_step` is past its range. A summary with mixed layouts or missing parts is deleted. Call this on the
/// writer's thread.
void update_pyramid(Database& database, const RankSteps& of, std::set<std::int64_t> changed, std::int64_t last_step);

}  // namespace babelring::store
