#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "nmt/data/batch_pipeline.h"
#include "nmt/data/data_check.h"
#include "nmt/data/sequence_source.h"
#include "nmt/data/vocabulary.h"
#include "nmt/metering/gpu_meter.h"
#include "nmt/metering/host_meter.h"
#include "nmt/train/checkpointing/checkpoint_policy.h"
#include "nmt/train/checkpointing/checkpointer.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/evaluation/validator.h"
#include "nmt/train/evaluation_policy.h"
#include "nmt/train/setup/requests.h"
#include "nmt/train/update/divergence.h"
#include "nmt/train/update/load_balancer.h"
#include "nmt/train/update/update_observer.h"
#include "nmt/train/update/update_runner.h"

namespace babelring {

class PairLosses;

/// Objects of the program that training uses. All must outlive the Trainer.
struct TrainerParts {
  const TrainConfig& config;
  Backend& backend;
  Communicator& communicator;
  UpdateSource& source;
  const Vocabulary* vocabulary = nullptr;     // of translations, which are validated on data.valid_set; else null
  const SequenceSet* held_out = nullptr;      // of other tasks, for validation; null: none
  const SequenceSet* train_sample = nullptr;  // sequence tasks: also scored at each validation; null: none
  Checkpointer* checkpoints = nullptr;        // null: nothing is saved
  RecordSink& records;
  const StopRequest& stop;
  CheckpointRequest* checkpoint_request = nullptr;  // of rank 0
  GpuMeter* gpu_meter = nullptr;                    // null: no GPU, or its figures cannot be read
  SpanLog* spans = nullptr;                         // for timelines; null: not logged
  UpdateObserver* lab = nullptr;                    // null: no lab tools
  PairLosses* pair_losses = nullptr;                // of rank 0; null: not noted
  DataCheck* data_check = nullptr;                  // of the first rank of each host; null: the data is not checked
  int threads = 1;                                  // the backend's, for the busy fraction
  std::int64_t model_vocabulary = 0;                // subwords in the model's vocabulary
  std::optional<LineSize> source_lines = {};        // of the training set, stored in checkpoints
};

enum class EndReason { finished, stopped_on_request, stopped_early };

struct TrainingEnd {
  EndReason reason = EndReason::finished;
  std::string text;  // for the log: "finished: 20e of training", "stopped on request", "early stopping: …"
};

/// Trains until the configured end, a stop request or a Failure. Every rank makes the same calls.
class Trainer {
 public:
  /// Initialises the model from the seed; begin() may replace its weights and state by a checkpoint's.
  explicit Trainer(const TrainerParts& parts);

  const Model& model() const { return replica_.model; }
  const ModelReplica& replica() const { return replica_; }
  const TrainingState& state() const { return state_; }
  /// The wanted size of a bucket of gradients. 0: a single rank, or ranks with one copy of the model, sum without
  /// buckets.
  std::int64_t bucket_bytes() const { return updates_.bucket_bytes(); }
  /// True if each host keeps a shard of the optimizer's state.
  bool shards_optimizer() const { return replica_.sharding.shards_optimizer(); }

  /// Sets run and attempt, and resumes from a checkpoint; if there is none, begins with the weights that
  /// training.start_from names. Rank 0 reads it; every rank calls this. Throws UsageFailure on every rank if the
  /// checkpoint does not fit the run.
  void begin(const std::string& run, std::int64_t attempt, const ResumeOptions& resume = {});

  /// Trains to the end. Throws Diverged on every rank, without a last checkpoint, and Failure on rank 0 if the last
  /// checkpoint could not be written; failures of earlier checkpoints are only logged. Throws UsageFailure on every
  /// rank as soon as a rank's data check has found damage; a training that ends by itself waits for these checks, which
  /// begin after the first update.
  TrainingEnd run();

 private:
  TrainingEnd train(std::int64_t micro_batch_tokens, UpdateResult& last);
  void rewind();
  void adopt_state(const TrainingState& own);
  std::optional<TrainingEnd> end_after(const UpdateResult& last) const;
  UpdateResult train_update(BatchPipeline& pipeline);
  void record(StepRecord record, const Progress& before);
  void add_corpora(const CorpusSums& sums, const Progress& before, StepRecord& record);
  void make_validators();
  void validate_beside(bool translate);
  void evaluate(Evaluation evaluation);
  bool evaluate_weights(Evaluation evaluation);
  EvalRecord evaluated(Validator& validator, bool translate);
  void start_checkpoint();
  void await_data_checks();
  void refuse_damaged_data();
  std::int64_t prepare_memory();

  TrainerParts parts_;
  ModelReplica replica_;
  UpdateRunner updates_;
  HostMeter meter_;
  /// A set that is scored after the validation set, and decides nothing.
  struct BesideSet {
    std::string name;  // in records
    std::unique_ptr<Validator> validator;
    json::object scoring;     // see Validator::scoring(); empty: not told
    bool translates = false;  // whenever the validation set is translated
  };
  std::unique_ptr<Validator> validator_;  // null: no evaluations
  std::vector<BesideSet> beside_;
  EvaluationPolicy evaluations_;
  CheckpointPolicy checkpoints_;
  DivergenceWatch divergence_;
  LoadBalancer balancer_;
  TrainingState state_;
  std::int64_t began_after_ = 0;      // the update after which this attempt began
  std::vector<std::string> corpora_;  // UpdateSource::corpora()
  CorpusSums corpora_since_;          // the record before that has them
  bool trace_next_ = false;           // the ranks voted for a trace in the last update
};

}  // namespace babelring
