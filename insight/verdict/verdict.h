#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "insight/verdict/findings.h"
#include "insight/verdict/health.h"

/// Finds a run's bottleneck from its records: pure functions over plain structs.
namespace babelring::verdict {

/// A number that supports the verdict: `key` is its name in the API, `unit` is what a reader sees behind the value, as
/// "ms" or "of the link's rate".
struct Evidence {
  std::string key;
  double value = 0;
  std::string unit;
  double fraction = unknown_value;  // of an update's time with its pauses; NaN if not a part of it
};

/// The bottleneck of a run.
struct Verdict {
  Kind kind = Kind::unknown;
  Level level = Level::unknown;  // good only if the run's compute threads are busy
  std::string sentence, advice;
  double confidence = 0;  // 0 to 1: from the number of updates, their agreement, the ranks seen and the margin
  std::int64_t first_update = 0, last_update = 0;  // of the window; 0 if it is empty
  std::vector<Evidence> evidence;
};

/// Judges the run. Accepts any numbers without throwing; returns Kind::unknown and says why if the data do not suffice.
Verdict judge(const Input& input);

/// The verdict as a part of the run's health. Topic::hosts for host_contended, otherwise Topic::speed.
HealthPart health_part(const Verdict& verdict);
/// The part of the health about other load on the run's hosts. `hosts` must not be empty.
HealthPart judge_hosts(const std::vector<HostLoad>& hosts);

}  // namespace babelring::verdict
