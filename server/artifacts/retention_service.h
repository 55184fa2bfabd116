#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/repeating_thread.h"
#include "base/result.h"
#include "server/artifacts/checkpoint_changes.h"

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

/// The reason why a checkpoint must not be removed. It is pinned in the database or by the mark in its folder, and best
/// also if the worker's mark `best` names it; the last one is the last that is complete on disk.
Protection protection_on_disk(const Context& context, const store::CheckpointRow& checkpoint);

/// The state of retention between rounds, by checkpoint id.
struct RetentionMemory {
  std::map<std::string, SteadyClock::time_point> refused;  // time of the next try after a failed removal
  std::map<std::string, bool> undamaged;                   // result of the check of digests
};

/// Applies the retention policies of runs to checkpoints below this server's roots, every few seconds on its own
/// thread, and removes exports of checkpoints that a worker or the end of a run removed. First finishes changes that an
/// earlier server left unfinished. The worker applies its own retention (checkpoint.keep_last of its configuration) to
/// the same folders. Both rename a folder before they delete its files, and neither removes a pinned checkpoint, the
/// best one or the last intact one. Digests are checked before a removal to find the last intact one.
class RetentionService {
 public:
  explicit RetentionService(const Context& context);
  ~RetentionService();
  RetentionService(const RetentionService&) = delete;
  RetentionService& operator=(const RetentionService&) = delete;

  /// Applies the policies now.
  void wake();

 private:
  void work();
  void apply_all();

  const Context context_;
  std::atomic<bool> stopping_ = false, poked_ = false;
  UnfinishedChanges unfinished_;
  bool finished_ = false;  // unfinished_ was finished; used by the thread only, as memory_
  RetentionMemory memory_;
  RepeatingThread thread_;  // last member: it uses all the others
};

}  // namespace babelring::artifacts
