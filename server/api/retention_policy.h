#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring::api {

/// Which checkpoints of a run are kept. One is kept if any of the keep_ rules selects it; without such a rule all are.
/// Above `max_bytes` the oldest are removed nevertheless. Pinned ones, the best and the last complete one are never
/// removed.
struct RetentionPolicy {
  std::optional<std::int64_t> keep_last;
  std::optional<std::int64_t> keep_best;  // this many, by `metric`
  std::string metric = "sacrebleu";       // or loss
  std::optional<std::int64_t> keep_every_steps;
  std::optional<std::int64_t> max_bytes;
  std::optional<std::int64_t> max_log_bytes;
};

/// {"keep_last": 3, "keep_best": {"metric": "sacrebleu", "count": 1}, "keep_every_steps": 1000, "max_bytes": …,
/// "max_log_bytes": …}; null and absent are the same. The Error names the member, what was found and what is expected.
Result<RetentionPolicy> policy_from_json(const json::value& value);
json::object to_json(const RetentionPolicy& policy);

/// What the policy looks at.
struct RetentionCandidate {
  std::int64_t step = 0, bytes = 0;
  double sacrebleu = 0, loss = 0;  // NaN: not evaluated
  bool pinned = false, best = false;
  bool intact = true;     // complete on disk, as far as this server can tell
  bool removable = true;  // below a root of this server, and nobody reads it
};

/// Places of those to remove. `candidates` are in the order of steps, newest first.
std::vector<std::size_t> choose_removals(const RetentionPolicy& policy,
                                         const std::vector<RetentionCandidate>& candidates);

/// Why one must stay whatever is asked: "pinned", "best", "last", "in_use", or empty.
std::string protection_of(const std::vector<RetentionCandidate>& candidates, std::size_t place);

}  // namespace babelring::api
