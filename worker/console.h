#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/records/records.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Prints the record stream as log lines: a summary every `training.log_every` with means since the previous summary,
/// each validation and each checkpoint. On a terminal it also draws a progress bar on the last line, which log lines of
/// init_log(…, over_bar) erase. Expects step records filled by ProgressMeter. Used on rank 0.
class Console : public RecordSink {
 public:
  /// `terminal`: standard error ends at a terminal, so draw a progress bar.
  Console(const TrainConfig& config, bool terminal);
  ~Console() override;

  /// Sets the starting point of a resumed run.
  void begin(const Progress& progress) { progress_ = progress; }

  void write(RecordBody body) override;

 private:
  /// Sums since the last summary line.
  struct Window {
    std::int64_t steps = 0, target_tokens = 0;
    double step_ms = 0, exposed_ms = 0, data_ms = 0;
    double loss = 0, nll = 0;                    // sums over target tokens
    double excess = 0;                           // the same, over updates of known entropy
    double alignment_loss = 0, r_drop_loss = 0;  // as the losses; NaN without guided alignment, or R-Drop
    std::int64_t excess_tokens = 0;
  };
  void show(const StepRecord& step);
  void show(const EvalRecord& eval);
  void show(const CheckpointRecord& checkpoint);
  void draw_bar(const StepRecord& step);

  bool terminal_;
  std::optional<SteadyClock::time_point> last_drawn_;
  Interval log_every_;
  Progress progress_;
  Window window_;
};

}  // namespace babelring
