#pragma once

#include <memory>
#include <string>

#include "lab/lab_folder.h"
#include "lab/probe/probe_file.h"
#include "lab/probe/probe_recorder.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/update/model_replica.h"
#include "nmt/train/update/update_observer.h"

namespace babelring {

/// The processor's model name; empty if unknown.
std::string processor_model();

/// The header of a probe of `config`: digests, also of the current weights, and the environment of this process:
/// processor, kernel, backend, libraries, communication (with NCCL's version where it sums) and the variables that
/// change arithmetic. The caller sets updates, mode, corpus and threads.
ProbeHeader probe_header(const TrainConfig& config, const ModelReplica& replica);

/// The probe of a training run, on each rank: `lab.probe.at` and the updates behind it, in
/// RUN/lab/probe-update-00001000-rank-0.jsonl, which is reported when it is complete. A file that cannot be written is
/// logged and does not end the run.
class RunProbe : public UpdateObserver {
 public:
  /// `config` must outlive the probe. `files`: of this rank. `corpus` is the training set's digest.
  RunProbe(const TrainConfig& config, LabFolder files, std::string corpus);

  OpObserver* begin(const UpdateStart& start) override;
  void end(const StepRecord& record) override;

 private:
  void report();
  void give_up(const std::exception& failure);

  const TrainConfig& config_;
  LabFolder files_;
  const std::string corpus_;
  std::int64_t first_, last_;
  std::filesystem::path file_;               // of the recorder
  std::unique_ptr<ProbeRecorder> recorder_;  // null outside of the probed updates
};

}  // namespace babelring
