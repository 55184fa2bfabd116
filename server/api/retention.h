#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "nmt/base/clock.h"
#include "server/api/checkpoint_changes.h"
#include "server/api/service.h"
#include "server/store/rows.h"

namespace babelring::api {

/// Why a checkpoint must not be removed: "pinned" (in the database or by the mark in its folder), "best" (also where
/// the worker's link `best` points to it), "last" (complete on disk), "in_use", or empty.
std::string protection_on_disk(Service& service, const store::CheckpointRow& checkpoint);

/// By id: checkpoints that could not be removed, and when to try again.
using RefusedRemovals = std::map<std::string, SteadyClock::time_point>;

/// Applies the retention policies of runs to checkpoints below this server's roots, every few seconds in a thread of
/// its own, after it has finished what an earlier server left unfinished. The worker's own retention
/// (checkpoint.keep_last of its configuration) works beside it; both rename a folder before they empty it, and neither
/// takes what is pinned, best or the last complete.
class RetentionKeeper {
 public:
  explicit RetentionKeeper(Service& service);
  ~RetentionKeeper();
  RetentionKeeper(const RetentionKeeper&) = delete;
  RetentionKeeper& operator=(const RetentionKeeper&) = delete;

  /// Applies the policies now.
  void poke();

 private:
  void loop();
  void apply_all();

  Service& service_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopping_ = false;
  bool poked_ = false;
  UnfinishedChanges unfinished_;
  RefusedRemovals refused_;  // of the thread alone
  std::thread thread_;       // last: starts when everything else is there
};

}  // namespace babelring::api
