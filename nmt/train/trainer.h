#pragma once

#include <cmath>
#include <memory>
#include <string>

#include "base/records.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/metering/gpu_meter.h"
#include "nmt/metering/host_meter.h"
#include "nmt/optim/schedule.h"
#include "nmt/train/checkpoint_request.h"
#include "nmt/train/checkpointing/checkpointer.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/divergence.h"
#include "nmt/train/evaluation/validator.h"
#include "nmt/train/stop_request.h"
#include "nmt/train/update_runner.h"

namespace babelring {

/// What training borrows from the program around it. All must outlive the Trainer.
struct TrainerParts {
  const TrainConfig& config;
  Backend& backend;
  Communicator& communicator;
  const Corpus& corpus;
  const Vocabulary* vocabulary = nullptr;  // null for tasks without text, which are not validated
  Checkpointer* checkpoints = nullptr;     // null: nothing is saved
  RecordSink& records;
  const StopRequest& stop;
  CheckpointRequest* checkpoint_request = nullptr;  // of rank 0
  GpuMeter* gpu_meter = nullptr;                    // null: no GPU, or its figures cannot be read
  int threads = 1;                                  // the backend's, for the busy fraction
  std::int64_t model_vocabulary = 0;                // pieces in the model's vocabulary
};

/// Trains until the configured end, a stop request or a Failure. Every rank makes the same calls.
class Trainer {
 public:
  /// Initialises the model from the seed; begin() may replace its weights and state by a checkpoint's.
  explicit Trainer(const TrainerParts& parts);

  const Transformer& model() const { return model_; }
  const TrainingState& state() const { return state_; }
  std::int64_t updates_per_epoch() const { return plan_.updates_per_epoch(); }
  /// Sentence pairs that are longer than data.max_length.
  std::int64_t left_out() const { return plan_.left_out(); }

  /// Sets run and attempt, and resumes from a checkpoint; if there is none, begins with the weights that
  /// training.start_from names. Rank 0 reads it; every rank calls this. Throws UsageFailure on every rank if the
  /// checkpoint does not fit the run.
  void begin(const std::string& run, std::int64_t attempt, const ResumeOptions& resume = {});

  /// Returns why training ended: "finished: …", "stopped on request" or "early stopping: …". Throws Diverged on every
  /// rank, without a last checkpoint, and Failure if its last checkpoint could not be written (on rank 0); others
  /// before it are only logged.
  std::string run();

 private:
  std::string train(std::int64_t micro_batch_tokens, UpdateResult& last);
  void rewind();
  void adopt_state(const TrainingState& own);
  std::string reason_to_end(const UpdateResult& last) const;
  UpdateResult train_update(BatchPipeline& pipeline);
  void evaluate_if_due(const Progress& before);
  void evaluate(bool translate);
  std::string save();
  std::string write_checkpoint();
  void save_meanwhile();
  void save_last();
  bool due(const Interval& every, const Progress& before) const;
  std::int64_t prepare_memory();
  /// Each rewind halved the learning rate.
  double learning_rate_factor() const { return std::ldexp(1.0, -static_cast<int>(state_.rewinds)); }
  double minutes() const { return minutes_before_ + watch_.elapsed_ms() / 60000; }

  TrainerParts parts_;
  BatchPlan plan_;
  ParameterSharding ownership_;
  Transformer model_;
  Adam adam_;
  Schedule schedule_;
  ActivationArenas arenas_;
  UpdateRunner runner_;
  HostMeter meter_;
  std::unique_ptr<Validator> validator_;
  TrainingState state_;
  DivergenceWatch divergence_;
  bool checkpoint_due_ = false;  // put off while updates are skipped
  Stopwatch watch_;
  double minutes_before_ = 0;
  std::int64_t evaluated_update_ = 0, translated_update_ = 0, saved_update_ = 0;
  std::int64_t request_voted_for_ = 0;  // number of the checkpoint request that this rank last voted for
  EvalRecord last_evaluation_;
};

}  // namespace babelring
