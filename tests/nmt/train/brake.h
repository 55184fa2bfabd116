#pragma once

#include <chrono>
#include <thread>

#include "nmt/train/update/update_observer.h"

namespace babelring {

/// Makes a rank slow: each op takes longer.
class Brake : public UpdateObserver, private OpObserver {
 public:
  explicit Brake(std::chrono::microseconds delay) : delay_(delay) {}
  OpObserver* begin(const UpdateStart&) override { return this; }
  void end(const StepRecord&) override {}

 private:
  Watch watch() const override { return Watch::order; }
  void ran(const OpRun&) override { std::this_thread::sleep_for(delay_); }

  std::chrono::microseconds delay_;
};

}  // namespace babelring
