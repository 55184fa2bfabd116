#pragma once

#include <cstdint>
#include <utility>

#include "base/records/records.h"
#include "nmt/ops/observer.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// An update that begins.
struct UpdateStart {
  std::int64_t update = 0;
  bool trace = false;     // some rank voted for a trace in the update before; equal on all ranks
  ModelReplica& replica;  // outlives the Trainer's run
};

/// Looks at updates of a training run from inside, on one rank. Called by the training thread.
class UpdateObserver {
 public:
  virtual ~UpdateObserver() = default;
  /// This rank's vote to trace the updates after this one.
  virtual bool votes_for_trace() { return false; }
  /// Returns the observer of this update's ops; null: the update runs unobserved. The OpObserver must
  /// live until end(), or until the Trainer's run ends by an exception.
  virtual OpObserver* begin(const UpdateStart& start) = 0;
  /// The update is complete on the host; a device may still run its optimizer. `record` has no host and GPU figures.
  virtual void end(const StepRecord& record) = 0;
  /// After end(): the update's record is complete.
  virtual void recorded(const StepRecord& record) { static_cast<void>(record); }
  /// Training has ended without an exception; no update follows.
  virtual void finish() {}
};

/// Begins the observation of one update; ends it by end(). If the update throws, only the observer of ops is removed.
/// An observer of ops that the caller has set stays unless `observer` sets one.
class ObservedUpdate {
 public:
  /// `observer` may be null.
  ObservedUpdate(UpdateObserver* observer, const UpdateStart& start)
      : observer_(observer), backend_(start.replica.backend) {
    OpObserver* ops = observer_ != nullptr ? observer_->begin(start) : nullptr;
    if (ops == nullptr) return;
    backend_.observe(ops);
    observes_ops_ = true;
  }
  ~ObservedUpdate() { stop_observing_ops(); }
  ObservedUpdate(const ObservedUpdate&) = delete;
  ObservedUpdate& operator=(const ObservedUpdate&) = delete;

  void end(const StepRecord& record) {
    if (observer_ == nullptr) return;
    stop_observing_ops();
    observer_->end(record);
  }

 private:
  void stop_observing_ops() {
    if (std::exchange(observes_ops_, false)) backend_.observe(nullptr);
  }

  UpdateObserver* observer_;
  Backend& backend_;
  bool observes_ops_ = false;
};

}  // namespace babelring
