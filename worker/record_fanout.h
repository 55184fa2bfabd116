#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/records/records.h"
#include "nmt/train/checkpointing/training_state.h"
#include "worker/console.h"
#include "worker/heartbeat.h"
#include "worker/progress_meter.h"
#include "worker/tensorboard.h"

namespace babelring {

/// Distributes each record to the console, the TensorBoard writer and the reporter. Fills in the progress of step
/// records and passes the update number to the heartbeat. Console and heartbeat may be null.
class RecordFanout : public RecordSink {
 public:
  RecordFanout(ProgressMeter& progress, Console* console, RecordSink& reporter, Heartbeat* heartbeat)
      : progress_(progress), console_(console), reporter_(reporter), heartbeat_(heartbeat) {}
  /// Call before the first update.
  void begin(const TrainingState& state) {
    progress_.begin(state.progress, state.elapsed_minutes);
    if (console_ != nullptr) console_->begin(state.progress);
  }
  void write(RecordBody body) override {
    auto* step = std::get_if<StepRecord>(&body);
    if (step != nullptr) progress_.measure(*step);
    if (step != nullptr && heartbeat_ != nullptr) heartbeat_->record_update(step->update);
    if (console_ != nullptr) console_->write(body);
    if (board_) board_->write(body);
    reporter_.write(std::move(body));
  }
  /// Also writes later records to a new event file in `folder`, unless it is empty.
  void open_board(const std::filesystem::path& folder, const std::string& host, std::int64_t update) {
    if (!folder.empty()) board_.emplace(folder, host, update);
  }

 private:
  ProgressMeter& progress_;
  Console* console_;
  RecordSink& reporter_;
  Heartbeat* heartbeat_;
  std::optional<TensorBoard> board_;
};

}  // namespace babelring
