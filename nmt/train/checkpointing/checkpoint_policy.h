#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/result.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/requests.h"

namespace babelring {

/// How to learn the outcome of a write.
enum class FinishSave {
  poll,   // nothing while the write is in progress; call it when no rank is writing
  wait,   // waits for the write
  alone,  // waits without the other ranks, which may be lost: training has failed on this one
};

/// How a checkpoint is written while training continues. All functions are empty if nothing is saved.
struct CheckpointWriting {
  std::function<void()> start;                              // returns as soon as the state is copied
  std::function<bool()> busy;                               // this rank is writing
  std::function<std::optional<Status>(FinishSave)> finish;  // as Checkpointer::finish_save()
  bool reports = true;                                      // this rank says that a write has failed
};

/// Decides when a checkpoint is written: at intervals and on request, and never twice for the same update. One is
/// written at a time: the next waits for it. All functions may throw what `writing` throws.
class CheckpointPolicy {
 public:
  /// `request` must outlive the policy; null: none can be made on this rank.
  CheckpointPolicy(const CheckpointConfig& config, CheckpointWriting writing, CheckpointRequest* request);

  /// True if this rank has a request for which no checkpoint has been started. The next save executes it.
  bool vote();
  /// True while this rank is writing.
  bool writing() const { return in_progress_ && writing_.busy(); }
  /// Call after each update. `voted`: a rank voted for a checkpoint at this update. `writing`: a rank was writing
  /// before it. Logs the error of a write that has failed meanwhile.
  void note(const Progress& before, const Progress& now, bool voted, bool writing = false);
  /// True if a checkpoint should be written now.
  bool due() const { return due_ || voted_; }

  /// Starts to write a checkpoint of `update` unless it exists or is being written. A request counts as executed when
  /// the outcome of the write is known, even if it failed: it is not retried.
  void save(std::int64_t update);
  /// Writes the checkpoint of `update` unless it exists. Throws Failure if that fails, since the updates after the
  /// previous checkpoint would be lost.
  void save_last(std::int64_t update);
  /// Waits for the write in progress. Logs its error.
  void finish();
  /// finish() after training has failed, without other ranks; logs the write that it waits for, and `cause`, since the
  /// disk may be slow.
  void finish_after(const char* cause);
  /// Training continues from the checkpoint of `update`. No write may be in progress.
  void restored(std::int64_t update);

 private:
  void start(std::int64_t update);
  std::optional<Status> outcome(FinishSave how);
  void log_failure(FinishSave how);
  void carried_out(std::int64_t request);

  Interval every_;
  CheckpointWriting writing_;
  CheckpointRequest* request_;
  bool due_ = false;  // stays true while the trainer puts off writing
  bool voted_ = false;
  std::optional<std::int64_t> in_progress_;  // the update whose checkpoint is being written
  std::int64_t saved_update_ = 0;
  std::int64_t request_voted_for_ = 0, request_in_progress_ = 0;  // numbers of requests
};

}  // namespace babelring
