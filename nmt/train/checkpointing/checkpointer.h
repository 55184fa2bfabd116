#pragma once

#include <filesystem>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "base/result.h"
#include "nmt/checkpoint/store.h"
#include "nmt/comm/communicator.h"
#include "nmt/train/checkpointing/checkpoint_policy.h"
#include "nmt/train/checkpointing/state_copy.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/setup/config.h"
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
  std::int64_t expected = 0;    // update: a folder without this checkpoint or a later one is refused
};

/// Saves and restores training state through a CheckpointStore. Without checkpoint.sharded only rank 0 accesses files,
/// and hosts need not share a file system: restore() and rewind() broadcast the state to the other ranks.
///
/// With checkpoint.sharded and several hosts, the first rank of each host writes its shard of the tensors, all side by
/// side, into a folder that rank 0 makes. When all are written, rank 0 gathers their digests, writes the rest and gives
/// the folder its name. Saving is then collective: every rank makes the same calls. It also is with a
/// sharded optimizer (ParameterSharding::shards_optimizer()).
class Checkpointer {
 public:
  /// `vocabulary_model` is the content of the SentencePiece file, stored in each checkpoint so that it can translate on
  /// its own; empty: none. `guard` is called before a checkpoint becomes visible; it throws Fenced if this attempt was
  /// given up. The references must outlive the checkpointer. Collective. Throws AgreedFailure on every rank if rank 0
  /// cannot write to the folder, and, if shards are written, UsageFailure if a host does not see rank 0's folder.
  Checkpointer(const TrainConfig& config, const std::filesystem::path& folder, std::string vocabulary_model,
               Backend& backend, Communicator& communicator, RecordSink& records, std::function<void()> guard = {});

  /// Copies the state, on rank 0 or the host's shard of it on each host's first rank, and starts a thread that writes
  /// it as a checkpoint. With a sharded optimizer the thread starts later: the state arrives while finish_save() is
  /// polled, once after each update. The replica may change as soon as this returns, and must outlive the write. No
  /// other write may be in progress.
  void start_save(const ModelReplica& replica, const TrainingState& state, const CheckpointScores& scores);
  /// True while a thread of this rank is writing.
  bool writing() const;
  /// The outcome of the write that start_save() started, after rank 0's records. If nothing was written, the Error has
  /// the reason, and older checkpoints are intact. Unless saving is collective, ranks but 0 succeed; all ranks wait for
  /// the write with FinishSave::wait, so that a slow disk keeps no rank in a collective for too long.
  /// FinishSave::poll may be used only if no rank was writing() since the ranks last agreed on it; it returns nothing
  /// if rank 0 has the rest of a sharded checkpoint to write. Throws Fenced on rank 0. The destructor waits for a
  /// thread in progress, but writes no records.
  std::optional<Status> finish_save(FinishSave how);
  /// start_save() and finish_save().
  Status save(const ModelReplica& replica, const TrainingState& state, const CheckpointScores& scores) {
    start_save(replica, state, scores);
    return finish_save(FinishSave::wait).value();
  }

  /// Restores model, optimizer and state on every rank. Returns false if there is no checkpoint. With options.from,
  /// moves newer checkpoints aside. `state` is the run's current state on entry and the checkpoint's on return.
  /// Collective. Throws Failure if options.from is missing or damaged, if all checkpoints are damaged, or if weights
  /// are not finite. Throws UsageFailure on every rank under the conditions of check_resume().
  bool restore(ModelReplica& replica, TrainingState& state, const ResumeOptions& options = {});

  /// After divergence: restores the newest checkpoint whose validation loss is at most 1 above the lowest of all
  /// checkpoints; losses that mean something else than `state.scoring` do not count. If none was evaluated, restores
  /// the newest one before update `before`. Moves newer checkpoints aside. Returns false if there is no such
  /// checkpoint. Collective. Throws Fenced.
  bool rewind(ModelReplica& replica, TrainingState& state, std::int64_t before);

  /// Moves all checkpoints aside, so that training starts from scratch. Throws Failure.
  void move_all_aside();

 private:
  std::optional<Checkpoint> find(const std::filesystem::path& chosen);
  std::optional<Checkpoint> find_good(std::int64_t before, const json::object& scoring) const;
  bool load(const std::optional<Checkpoint>& checkpoint, ModelReplica& replica, TrainingState& state);
  void require_one_folder();
  /// The shard that this rank writes; absent: none.
  std::optional<ShardIndex> own_shard() const { return shards_[static_cast<std::size_t>(communicator_.rank())]; }
  bool writes_shards() const { return shards_[0]->count > 1; }
  bool collective() const { return writes_shards() || gathers_state_; }
  void start_writing();
  void start_shard(StateCopy copy);
  std::optional<Status> finish_collectively(FinishSave how);
  Status complete_shards();
  void wait_for_writers();
  Status written();

  const TrainConfig& config_;
  std::filesystem::path folder_;
  std::string vocabulary_model_;
  Backend& backend_;
  Communicator& communicator_;
  RecordSink& records_;
  std::function<void()> guard_;
  std::int64_t update_in_progress_ = 0;            // of the last save
  bool gathers_state_ = false;                     // the last save gathered the state of a sharded optimizer
  std::vector<std::optional<ShardIndex>> shards_;  // that the ranks write
  std::optional<CheckpointStore> store_;           // rank 0 only; the writing thread's while there is one
  std::optional<StateCopy> copy_;                  // until it is complete
  CheckpointContent content_;                      // on rank 0, until the writing thread has it
  // The folder of a sharded checkpoint on rank 0, until all shards are written.
  std::unique_ptr<ScratchFolder> unfinished_;
  // Last: they end before the members that they use.
  std::future<Result<json::value>> shard_;       // of this host, null on other ranks; then
  std::future<CheckpointStore::Saved> writing_;  // on rank 0: the rest, or the whole checkpoint
};

}  // namespace babelring
