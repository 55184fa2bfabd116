#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/span_log.h"
#include "lab/lab_folder.h"
#include "lab/op_place.h"
#include "lab/timeline/rank_events.h"
#include "lab/timeline/rank_timeline.h"
#include "nmt/core/device_stream.h"
#include "nmt/ops/backend.h"
#include "nmt/train/setup/lab_config.h"
#include "nmt/train/setup/requests.h"
#include "nmt/train/update/update_observer.h"

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

/// A finished trace.
struct TraceFacts {
  std::int64_t first_update = 0, updates = 0;
  bool ops = true;           // ops were recorded
  std::int64_t request = 0;  // number of the TraceOrder; 0: the configuration asked for the trace
};

/// The content of a trace's artifact record: the facts, and how each rank spent the updates, unless there are more than
/// 1,000 ranks. Format: docs/formats.md.
json::object trace_content(const TraceFacts& facts, std::span<const RankEvents> ranks);

/// Records consecutive updates on every rank and writes one trace file for all ranks: those that the configuration
/// names, and those after a TraceRequest. Every rank has a Timeline, and the ranks exchange their events after the last
/// of the updates.
class Timeline final : public UpdateObserver {
 public:
  struct Parts {
    TraceConfig config;
    std::string run;
    SpanLog& spans;                   // of this rank's threads; records during a trace
    TraceRequest* request = nullptr;  // of rank 0; null on other ranks, and if nobody can request a trace
    /// Writes a finished file; called on rank 0.
    std::function<void(const Artifact& artifact, std::string_view file)> write;
  };
  explicit Timeline(Parts parts) : parts_(std::move(parts)) {}
  /// Warns if the run ended during a trace, which is lost then.
  ~Timeline() override;

  bool votes_for_trace() override;
  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;
  void recorded(const StepRecord& record) override;

 private:
  struct Trace {
    TraceFacts facts;
    SteadyClock::time_point origin;  // by rank 0's clock
    std::int64_t bytes_before = 0;
    std::optional<ClockOffset> clock;
    RankTimeline timeline;
    std::optional<OpRecorder> recorder;
  };
  bool configured_for(std::int64_t update) const {
    return parts_.config.updates > 0 && update == parts_.config.first_update();
  }
  TraceFacts facts_of(std::int64_t update) const;
  void open(const UpdateStart& start);
  void close();
  void write(const Trace& trace, const std::string& own);
  void write_file(const TraceFacts& facts, const std::vector<RankEvents>& ranks) const;

  Parts parts_;
  Communicator* communicator_ = nullptr;  // during a trace
  std::unique_ptr<Trace> trace_;          // null: no trace
  bool voted_ = false;                    // in the update before
};

}  // namespace babelring
