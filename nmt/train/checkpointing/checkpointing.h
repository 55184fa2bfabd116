#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/records.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/communicator.h"
#include "nmt/model/transformer.h"
#include "nmt/optim/adam.h"
#include "nmt/parallel/model_ownership.h"
#include "nmt/train/checkpointing/run_state.h"
#include "nmt/train/config.h"

namespace babelring {

/// What validation says of a checkpoint; NaN where it was not evaluated.
struct CheckpointScores {
  double sacrebleu = 0;
  double loss = 0;
  bool best = false;
};

/// Where and how a run resumes.
struct ResumeOptions {
  std::filesystem::path from;   // folder of a checkpoint; empty: the run's newest
  bool accept_changes = false;  // of the model or of the order of the data
  std::string vocabulary = {};  // digest that the checkpoint's must have; empty: not compared
};

/// Saves and restores training through a CheckpointStore. Only rank 0 touches files; restore() carries what it read to
/// the other ranks, so hosts need not share a file system.
class CheckpointKeeper {
 public:
  /// `vocabulary_model` is the content of the SentencePiece file written into each checkpoint, which then suffices to
  /// translate; empty: none. `guard` is called before a checkpoint becomes visible and throws Fenced if it must not.
  /// The references must outlive the keeper.
  CheckpointKeeper(const TrainConfig& config, const std::filesystem::path& folder, std::string vocabulary_model,
                   Backend& backend, Communicator& communicator, RecordSink& records, std::function<void()> guard = {});

  /// Returns why nothing was written (older checkpoints are intact then); empty on success, and on ranks other than 0.
  /// Emits checkpoint records. Throws Fenced.
  std::string save(const Transformer& model, const Adam& adam, const RunState& state, const CheckpointScores& scores);

  /// Restores model, optimizer and state of every rank. Returns false if there is no checkpoint. Checkpoints newer than
  /// one that was chosen are moved aside. `state` is the run's before, the checkpoint's afterwards. Throws Failure if
  /// the chosen checkpoint is absent or damaged, if all are damaged, or if weights are not finite, and UsageFailure on
  /// every rank as check_resume().
  bool restore(Transformer& model, Adam& adam, const ModelOwnership& ownership, RunState& state,
               const ResumeOptions& options = {});

  /// After training diverged: restores the newest checkpoint whose evaluation gave a loss of at most 1 above the lowest
  /// of all checkpoints here; if none was evaluated, the newest of before update `before`. Moves newer ones aside.
  /// Returns false if there is none. Throws Fenced.
  bool rewind(Transformer& model, Adam& adam, const ModelOwnership& ownership, RunState& state, std::int64_t before);

  /// Moves all checkpoints aside, so that training begins anew. Throws Failure.
  void set_all_aside();

 private:
  std::optional<Checkpoint> find(const std::filesystem::path& chosen);
  std::optional<Checkpoint> find_good(std::int64_t before) const;
  bool load(const std::optional<Checkpoint>& checkpoint, Transformer& model, Adam& adam,
            const ModelOwnership& ownership, RunState& state);
  void write(const Transformer& model, const Adam& adam, const RunState& state, const CheckpointScores& scores);

  const TrainConfig& config_;
  std::string vocabulary_model_;
  Backend& backend_;
  Communicator& communicator_;
  RecordSink& records_;
  std::function<void()> guard_;
  std::optional<CheckpointStore> store_;  // rank 0 only
};

}  // namespace babelring
