#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "nmt/train/update/update_observer.h"

namespace babelring {

/// Passes each call to several observers, in their order; ranges end in reverse order.
class OpObservers : public OpObserver {
 public:
  /// Not owned.
  explicit OpObservers(std::vector<OpObserver*> observers) : observers_(std::move(observers)) {}

  /// The closest watch of any observer.
  Watch watch() const override;
  void enter(const char* range) override;
  void leave() override;
  void begins(const OpRun& run) override;
  void ran(const OpRun& run) override;

 private:
  std::vector<OpObserver*> observers_;
};

/// The tools that look inside of one rank's updates, as one UpdateObserver. In an update that no tool observes, ops run
/// as if there were no tools.
class Lab : public UpdateObserver {
 public:
  void add(std::unique_ptr<UpdateObserver> tool) { tools_.push_back(std::move(tool)); }

  bool votes_for_trace() override;
  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;
  void recorded(const StepRecord& record) override;
  void finish() override;

 private:
  std::vector<std::unique_ptr<UpdateObserver>> tools_;
  std::unique_ptr<OpObservers> observers_;  // of the current update, if it has several
};

}  // namespace babelring
