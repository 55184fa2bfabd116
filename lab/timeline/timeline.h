#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/span_log.h"
#include "lab/lab_folder.h"
#include "lab/timeline/clock_offset.h"
#include "lab/timeline/op_recorder.h"
#include "lab/timeline/rank_timeline.h"
#include "lab/timeline/trace_content.h"
#include "nmt/train/setup/lab_config.h"
#include "nmt/train/setup/requests.h"
#include "nmt/train/update/update_observer.h"

namespace babelring {

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
