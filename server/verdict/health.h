#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// How a run is doing, at a glance: pure functions over plain structs.
namespace babelring::verdict {

/// From the least to the most urgent. `unknown`: nothing can be said yet, or nothing needs to be.
enum class Level { good, unknown, warning, bad };
std::string_view to_string(Level level);

/// What a statement about a run is about, in the order in which people want to know.
enum class Topic { state, learning, speed, hosts, alerts };
std::string_view to_string(Topic topic);

/// One statement about a run.
struct HealthPart {
  Topic topic = Topic::state;
  Level level = Level::unknown;
  std::string text;
  std::string action;  // what to do about it; empty: nothing
};

struct Health {
  Level level = Level::unknown;  // the worst of its parts; unknown only where neither learning nor speed is known
  std::string headline;          // text of the first of the worst parts
  std::string action;            // of the same part; empty: nothing to do
  std::vector<HealthPart> parts;
};

/// Sorts the parts by topic and takes the headline from the worst of them. There must be at least one.
Health health_of(std::vector<HealthPart> parts);

/// Where a run stands, as the store knows it.
struct Standing {
  std::string state;         // of the run: queued, running, failed, …
  std::string detail;        // why it is in that state, in the words of its last lifecycle record
  std::string last_error;    // text of the newest log line of level error; empty: none
  std::int64_t update = 0;   // the newest that was reported
  std::string silent_since;  // time of the last record of a running run that has fallen silent; empty: it reports
  bool resumable = false;    // the server started it, so the server can resume it
};

HealthPart judge_state(const Standing& standing);

}  // namespace babelring::verdict
