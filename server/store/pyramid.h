#pragma once

#include <cstdint>
#include <set>

#include "server/store/metrics.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// Above the summaries of 64 steps (level 0, table `buckets`) are those of 512, 4096 and 32768 steps (levels 1 to 3,
/// table `pyramid`), each combining eight of the level below. A long run is thus drawn from a few thousand rows.
inline constexpr int top_level = 3;
inline constexpr std::int64_t fan_out = 8;

/// Steps that one summary of a level covers.
constexpr std::int64_t steps_of_level(int level) {
  std::int64_t steps = bucket_steps;
  for (int i = 0; i < level; ++i) steps *= fan_out;
  return steps;
}

struct RankSteps {
  std::int64_t run = 0, rank = 0, attempt = 0;
};

/// Updates the levels above after the summaries of 64 steps in `changed` have changed. A summary is only made once
/// `last_step` is past its steps; one of mixed layouts or with a part missing is deleted. Called on the writer's
/// thread.
void raise_pyramid(Database& database, const RankSteps& of, std::set<std::int64_t> changed, std::int64_t last_step);

}  // namespace babelring::store
