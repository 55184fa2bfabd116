#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/records.h"
#include "nmt/train/config.h"

namespace babelring {

/// The record stream as a person reads it: a log line after each `training.log_every`, with the mean loss since the
/// line before, each evaluation and checkpoint, and on a terminal a progress bar on the last line, which log lines of
/// init_log(…, over_bar) overwrite. Step records say how much is done and left (ProgressMeter). Used on rank 0.
class Console : public RecordSink {
 public:
  /// `terminal`: what standard error shows is on one, so that a bar may be drawn.
  Console(const TrainConfig& config, bool terminal);
  ~Console() override;

  /// Where a resumed run stands.
  void begin(const Progress& progress) { progress_ = progress; }

  void write(RecordBody body) override;

 private:
  /// Sums since the last line.
  struct Window {
    std::int64_t steps = 0, target_tokens = 0;
    double step_ms = 0, exposed_ms = 0, data_ms = 0;
    double loss = 0, nll = 0;  // over all target tokens
  };
  void show(const StepRecord& step);
  void show(const EvalRecord& eval);
  void show(const CheckpointRecord& checkpoint);
  void draw_bar(const StepRecord& step);

  bool terminal_;
  std::optional<SteadyClock::time_point> last_drawn_;
  Duration log_every_;
  Progress progress_;
  Window window_;
};

}  // namespace babelring
