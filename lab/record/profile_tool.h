#pragma once

#include <memory>
#include <utility>

#include "lab/lab_folder.h"
#include "lab/record/rank_recorder.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Records the ops of some updates of a running rank into profile-update-N.json: what `nmt emulate record` writes, but
/// beside the other ranks and their gradient sums. If training ends before, the file holds the updates until then;
/// without any, a warning says so.
class ProfileTool : public UpdateObserver {
 public:
  /// `config` must outlive the tool. `threads`: of the backend.
  ProfileTool(const TrainConfig& config, std::shared_ptr<LabFolder> folder, int threads)
      : config_(config), folder_(std::move(folder)), threads_(threads) {}

  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;
  void finish() override;

 private:
  void write();

  const TrainConfig& config_;
  const std::shared_ptr<LabFolder> folder_;
  const int threads_;
  ModelReplica* replica_ = nullptr;
  bool observes_ = false;     // the current update
  std::int64_t reached_ = 0;  // the current update
  bool written_ = false;
  std::int64_t last_update_ = 0;  // that was recorded
  RankRecorder recorder_;
};

}  // namespace babelring
