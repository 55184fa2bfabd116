#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "base/records.h"
#include "base/result.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/communicator.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// Validation scores of a checkpoint; NaN if not evaluated.
struct CheckpointScores {
  double sacrebleu = 0;
  double loss = 0;
  bool best = false;
};

/// Options for Checkpointer::restore().
struct ResumeOptions {
  std::filesystem::path from;   // checkpoint folder; empty: the run's newest checkpoint
  bool accept_changes = false;  // accept a changed model configuration or data order
  std::string vocabulary = {};  // expected vocabulary digest; empty: not checked
};

/// Saves and restores training state through a CheckpointStore. Only rank 0 accesses files. restore() and rewind()
/// broadcast the state to the other ranks, so hosts need not share a file system.
class Checkpointer {
 public:
  /// `vocabulary_model` is the content of the SentencePiece file, stored in each checkpoint so that it can translate on
  /// its own; empty: none. `guard` is called before a checkpoint becomes visible; it throws Fenced if this attempt was
  /// given up. The references must outlive the checkpointer.
  Checkpointer(const TrainConfig& config, const std::filesystem::path& folder, std::string vocabulary_model,
               Backend& backend, Communicator& communicator, RecordSink& records, std::function<void()> guard = {});

  /// Copies the state on rank 0 and starts a thread that writes it as a checkpoint; does nothing on other ranks. The
  /// replica may change as soon as this returns. No other write may be in progress.
  void start_save(const ModelReplica& replica, const TrainingState& state, const CheckpointScores& scores);
  /// The outcome of the write that start_save() started, after its records; success on other ranks. Without `wait`,
  /// nothing while the write is in progress. If nothing was written, the Error has the reason, and older checkpoints
  /// are intact. Throws Fenced. The destructor waits for a write in progress, but writes no records of it.
  std::optional<Status> finish_save(bool wait);
  /// start_save() and finish_save().
  Status save(const ModelReplica& replica, const TrainingState& state, const CheckpointScores& scores) {
    start_save(replica, state, scores);
    return finish_save(true).value();
  }

  /// Restores model, optimizer and state on every rank. Returns false if there is no checkpoint. With options.from,
  /// moves newer checkpoints aside. `state` is the run's current state on entry and the checkpoint's on return.
  /// Collective. Throws Failure if options.from is missing or damaged, if all checkpoints are damaged, or if weights
  /// are not finite. Throws UsageFailure on every rank under the conditions of check_resume().
  bool restore(ModelReplica& replica, TrainingState& state, const ResumeOptions& options = {});

  /// After divergence: restores the newest checkpoint whose validation loss is at most 1 above the lowest of all
  /// checkpoints. If none was evaluated, restores the newest one before update `before`. Moves newer checkpoints aside.
  /// Returns false if there is no such checkpoint. Collective. Throws Fenced.
  bool rewind(ModelReplica& replica, TrainingState& state, std::int64_t before);

  /// Moves all checkpoints aside, so that training starts from scratch. Throws Failure.
  void move_all_aside();

 private:
  std::optional<Checkpoint> find(const std::filesystem::path& chosen);
  std::optional<Checkpoint> find_good(std::int64_t before) const;
  bool load(const std::optional<Checkpoint>& checkpoint, ModelReplica& replica, TrainingState& state);

  const TrainConfig& config_;
  std::string vocabulary_model_;
  Backend& backend_;
  Communicator& communicator_;
  RecordSink& records_;
  std::function<void()> guard_;
  std::optional<CheckpointStore> store_;         // rank 0 only; the writing thread's while there is one
  std::future<CheckpointStore::Saved> writing_;  // last: it ends before the members that it uses
};

}  // namespace babelring
