#pragma once

#include <atomic>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/repeating_thread.h"
#include "server/artifacts/checkpoint_changes.h"
#include "server/artifacts/retention_policy.h"

namespace babelring::artifacts {

/// The reason why a checkpoint must not be removed. It is pinned in the database or by the mark in its folder, and best
/// also if the worker's mark `best` names it; the last one is the last that is complete on disk.
Protection protection_on_disk(const Context& context, const store::CheckpointRow& checkpoint);

/// The state of retention between rounds, by checkpoint id.
struct RetentionMemory {
  std::map<std::string, SteadyClock::time_point> refused;  // time of the next try after a failed removal
  std::map<std::string, bool> undamaged;                   // result of the check of digests
};

/// Applies the retention policies of runs to checkpoints below this server's roots, every few seconds on its own
/// thread. First finishes changes that an earlier server left unfinished. The worker applies its own retention
/// (checkpoint.keep_last of its configuration) to the same folders. Both rename a folder before they delete its files,
/// and neither removes a pinned checkpoint, the best one or the last intact one. Digests are checked before a removal
/// to find the last intact one.
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
