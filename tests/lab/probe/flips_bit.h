#pragma once

#include "lab/probe/run_probe.h"

namespace babelring {

/// Runs a probe and, before one update, flips one bit of one weight: 16 ULP in element 5 of parameter 7.
class FlipsBit final : public UpdateObserver {
 public:
  /// `update` 0: never.
  FlipsBit(RunProbe& probe, std::int64_t update) : probe_(probe), update_(update) {}
  OpObserver* begin(const UpdateStart& start) override {
    if (start.update == update_) start.replica.model.parameters().all()[7].master.as<std::uint32_t>()[5] ^= 16;
    return probe_.begin(start);
  }
  void end(const StepRecord& record) override { probe_.end(record); }

 private:
  RunProbe& probe_;
  std::int64_t update_;
};

}  // namespace babelring
