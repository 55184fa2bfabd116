#pragma once

#include <atomic>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/repeating_thread.h"
#include "server/artifacts/checkpoint_changes.h"

namespace babelring::artifacts {

/// Why a checkpoint must not be removed: "pinned" (in the database or by the mark in its folder), "best" (also where
/// the worker's link `best` points to it), "last" (complete on disk), "in_use", or empty.
std::string protection_on_disk(const Context& context, const store::CheckpointRow& checkpoint);

/// What retention remembers from round to round, by id of a checkpoint.
struct RetentionMemory {
  std::map<std::string, SteadyClock::time_point> refused;  // could not be removed: when to try again
  std::map<std::string, bool> undamaged;                   // whether the digests were right
};

/// Applies the retention policies of runs to checkpoints below this server's roots, every few seconds in a thread of
/// its own, after it has finished what an earlier server left unfinished. The worker's own retention
/// (checkpoint.keep_last of its configuration) works beside it; both rename a folder before they empty it, and neither
/// takes what is pinned, best or the last undamaged: before anything is removed, digests tell which that is.
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
  bool finished_ = false;  // these; this and the next are of the thread alone
  RetentionMemory memory_;
  RepeatingThread thread_;  // last: starts when everything else is there
};

}  // namespace babelring::artifacts
