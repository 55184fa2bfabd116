#pragma once

#include <cstdint>
#include <functional>

#include "base/result.h"
#include "nmt/train/config.h"
#include "nmt/train/requests.h"

namespace babelring {

/// Decides when a checkpoint is written: at intervals and on request, and never twice for the same update.
class CheckpointPolicy {
 public:
  /// Writes the current state. On failure older checkpoints are intact.
  using Write = std::function<Status()>;
  /// If `write` is empty, nothing is saved. `request` must outlive the policy; null: none can be made on this rank.
  CheckpointPolicy(const CheckpointConfig& config, Write write, CheckpointRequest* request);

  /// True if this rank has a request that was not executed. The next save executes it.
  bool vote();
  /// Call after each update. `voted`: a rank voted for a checkpoint at this update.
  void note(const Progress& before, const Progress& now, bool voted);
  /// True if a checkpoint should be written now.
  bool due() const { return due_ || voted_; }

  /// Writes a checkpoint of `update` unless it exists. Returns success also if nothing is saved. A request counts as
  /// executed even if the write failed: the write is not retried.
  Status save(std::int64_t update);
  /// Like save(), but only logs an error.
  void save_meanwhile(std::int64_t update);
  /// Like save(), but throws Failure, since the updates after the previous checkpoint would be lost.
  void save_last(std::int64_t update);
  /// Training continues from the checkpoint of `update`.
  void restored(std::int64_t update);

 private:
  Interval every_;
  Write write_;
  CheckpointRequest* request_;
  bool due_ = false;  // stays true while the trainer puts off writing
  bool voted_ = false;
  std::int64_t saved_update_ = 0;
  std::int64_t request_voted_for_ = 0;  // number of the request
};

}  // namespace babelring
