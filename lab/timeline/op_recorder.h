#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/core/device_clock.h"
#include "lab/op_place.h"
#include "lab/timeline/rank_timeline.h"
#include "nmt/ops/backend.h"

namespace babelring {

/// Records the ranges of a backend's work in a RankTimeline, and its ops if wanted. With ops, a device is waited for
/// after each op. Without them, a device marks the beginning and end of ranges itself and is not waited for.
class OpRecorder final : public OpObserver {
 public:
  /// `store` names the layers of ops; it and `timeline` must outlive the recorder. Waits for a device if ops are not
  /// recorded.
  OpRecorder(Backend& backend, const ParameterStore& store, bool ops, RankTimeline& timeline);

  Watch watch() const override { return ops_ ? Watch::times : Watch::order; }
  void enter(const char* range) override;
  void leave() override;
  void ran(const OpRun& run) override;

  /// Adds the ranges that a device marked. Waits for the device.
  void finish();

 private:
  struct Moment {
    SteadyClock::time_point host;
    std::unique_ptr<DeviceEvent> device;  // null: `host` is exact
  };
  struct Range {
    std::string name;
    Moment begin, end;
  };
  Moment now();
  SteadyClock::time_point time_of(const Moment& moment) const;

  Backend& backend_;
  OpPlace place_;
  bool ops_;
  RankTimeline& timeline_;
  std::optional<DeviceClock> clock_;  // set if ranges are marked on a device
  std::vector<Range> open_, closed_;
};

}  // namespace babelring
