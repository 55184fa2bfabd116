#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace babelring::artifacts {

/// Which checkpoints of a run are kept. A checkpoint is kept if any keep_ rule selects it, or if there is no such rule.
/// Above `max_bytes`, the oldest ones are removed nevertheless. Pinned checkpoints, the best one and the last complete
/// one are never removed.
struct RetentionPolicy {
  std::optional<std::int64_t> keep_last;
  std::optional<std::int64_t> keep_best;  // number of best checkpoints by `metric`
  std::string metric = "sacrebleu";       // sacrebleu or loss
  std::optional<std::int64_t> keep_every_steps;
  std::optional<std::int64_t> max_bytes;
  std::optional<std::int64_t> max_log_bytes;
};

/// {"keep_last": 3, "keep_best": {"metric": "sacrebleu", "count": 1}, "keep_every_steps": 1000, "max_bytes": …,
/// "max_log_bytes": …}; null and absent are the same. The Error names the member, what was found and what is expected.
Result<RetentionPolicy> policy_from_json(const json::value& value);
json::object to_json(const RetentionPolicy& policy);

/// A checkpoint as the policy sees it.
struct RetentionCandidate {
  std::int64_t step = 0, bytes = 0;
  double sacrebleu = 0, loss = 0;  // NaN: not evaluated, or measured otherwise than the newest evaluation
  bool pinned = false, best = false;
  bool intact = true;     // complete on disk, or unknown to this server
  bool removable = true;  // below a root of this server and not in use
};

/// The indices of the checkpoints to remove. `candidates` must be sorted by step, newest first.
std::vector<std::size_t> choose_removals(const RetentionPolicy& policy,
                                         const std::vector<RetentionCandidate>& candidates);

/// The reason why a checkpoint must not be removed.
enum class Protection {
  none,
  pinned,
  best,
  last,    // the last intact one
  in_use,  // being read, or not below a root of this server
};
Protection protection_of(const std::vector<RetentionCandidate>& candidates, std::size_t place);

}  // namespace babelring::artifacts
