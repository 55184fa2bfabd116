#pragma once

#include <filesystem>
#include <memory>

#include "nmt/lab/probe/probe_recorder.h"
#include "nmt/train/update_observer.h"

namespace babelring {

/// The probe of a training run, on each rank: `lab.probe.at` and the updates behind it, in
/// FOLDER/probe-update-00001000-rank-0.jsonl. A file that cannot be written is logged and does not end the run.
class RunProbe : public UpdateObserver {
 public:
  /// `config` must outlive the probe. `folder` is created by the first probe. `corpus` is the training set's digest.
  RunProbe(const TrainConfig& config, std::filesystem::path folder, std::string corpus);

  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;

 private:
  void give_up(const std::exception& failure);

  const TrainConfig& config_;
  const std::filesystem::path folder_;
  const std::string corpus_;
  std::int64_t first_, last_;
  std::unique_ptr<ProbeRecorder> recorder_;  // null outside of the probed updates
};

}  // namespace babelring
