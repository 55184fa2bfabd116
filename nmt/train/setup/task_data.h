#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/data/corpus.h"
#include "nmt/data/data_check.h"
#include "nmt/data/epoch_orders.h"
#include "nmt/data/sequence_source.h"
#include "nmt/data/update_source.h"
#include "nmt/data/vocabulary.h"
#include "nmt/decode/split_source.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// The training data of a run, opened as its configuration says. Movable.
struct TaskData {
  std::optional<Vocabulary> vocabulary;       // translation only
  std::unique_ptr<Corpus> corpus;             // translation only; `source` refers to it
  std::unique_ptr<UpdateSource> source;       // never null
  std::unique_ptr<SequenceSet> held_out;      // of sequences, for validation; null: none
  std::unique_ptr<SequenceSet> train_sample;  // of sequences, evaluated beside; null: none
  std::int64_t model_vocabulary = 0;          // tokens that the model knows
  std::optional<LineSize> source_lines;       // translation only: usual size of the training set's source lines
  std::string size;                           // for the log: "20 sentence pairs, 3 updates an epoch"

  const Vocabulary* vocabulary_or_null() const { return vocabulary ? &*vocabulary : nullptr; }
  /// The content of the SentencePiece file; empty if the task has none.
  std::string vocabulary_model() const { return vocabulary ? vocabulary->bytes() : ""; }
};

/// Throws Failure if a configured training or validation set is absent, empty, of another task or damaged, as far as
/// that shows without reading the training set.
void check_task_data(const TrainConfig& config);

/// The check of the configured sets against the digests of their manifest; null if they are made on the fly or the run
/// is emulated, which reads no contents. Throws Failure if a file cannot be opened.
std::unique_ptr<DataCheck> make_data_check(const TrainConfig& config);

/// Tokens that the model knows, by the generator or the manifest of data.folder. Throws Failure if that cannot be read.
std::int64_t model_vocabulary(const TrainConfig& config);

/// Throws UsageFailure if data.sequences_per_update is auto, which only a run resolves.
void require_sequences_per_update(const TrainConfig& config);

/// Opens the data. A plan of sentence pairs lies in memory from `memory`, if it has any. Throws like check_task_data()
/// and require_sequences_per_update().
TaskData open_task_data(const TrainConfig& config, const PlanMemory& memory = {});

/// The held-out sequences of a task gssm: set `name` of data.folder, or sequences that are made on the fly.
std::unique_ptr<SequenceSet> open_held_out(const TrainConfig& config, const std::string& name);

/// For task gssm with data.folder: the configuration with the generator and the sequence length of the folder, so that
/// a checkpoint's configuration names them. Any other configuration is returned unchanged. Throws ConfigError if
/// gssm.nodes is another generator than the folder's, and like check_task_data().
TrainConfig with_generator_of_folder(TrainConfig config);

/// A rank's part of each update. With training.reproducible ranks it holds the units of the rank's position in the tree
/// in which the communicator adds ranks (AddOrder::tree).
RankPart rank_part(const TrainConfig& config, const Communicator& communicator, std::int64_t micro_batch_tokens);

/// The ranks in the order of RankPart::rank.
std::vector<int> ranks_by_part(const TrainConfig& config, const Communicator& communicator);

}  // namespace babelring
