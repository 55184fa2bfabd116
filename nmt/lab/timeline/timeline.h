#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/span_log.h"
#include "nmt/lab/timeline/clock_offset.h"
#include "nmt/lab/timeline/op_recorder.h"
#include "nmt/lab/timeline/rank_timeline.h"
#include "nmt/train/lab_config.h"
#include "nmt/train/update_observer.h"

namespace babelring {

/// Records consecutive updates on every rank and writes one trace file for all ranks. Every rank has one, and the ranks
/// exchange their events after the last of the updates.
class Timeline final : public UpdateObserver {
 public:
  struct Parts {
    TraceConfig config;
    std::string run;
    SpanLog& spans;  // of this rank's threads; records during a trace
    /// Writes a finished file; called on rank 0.
    std::function<void(const std::string& name, std::int64_t first_update, std::string_view content)> write;
  };
  explicit Timeline(Parts parts) : parts_(std::move(parts)) {}
  /// Warns if the run ended during a trace, which is lost then.
  ~Timeline() override;

  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;
  void recorded(const StepRecord& record) override;

 private:
  struct Trace {
    std::int64_t first_update = 0, updates = 0;
    SteadyClock::time_point origin;  // by rank 0's clock
    std::int64_t bytes_before = 0;
    std::optional<ClockOffset> clock;
    RankTimeline timeline;
    std::optional<OpRecorder> recorder;
  };
  void open(const UpdateStart& start);
  void close();
  void write(const Trace& trace, const std::string& own);

  Parts parts_;
  Communicator* communicator_ = nullptr;  // during a trace
  std::unique_ptr<Trace> trace_;          // null: no trace
};

}  // namespace babelring
