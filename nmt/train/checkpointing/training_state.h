#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/records/library_versions.h"
#include "base/records/resamples.h"
#include "nmt/checkpoint/checkpoint.h"
#include "nmt/data/update_source.h"
#include "nmt/data/vocabulary.h"
#include "nmt/decode/split_source.h"
#include "nmt/model/model.h"
#include "nmt/optim/schedule.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/update/model_replica.h"

namespace babelring {

/// A checkpoint loaded for inference, as used by `nmt translate`, `nmt evaluate` and `nmt gssm sample`. The model has
/// no gradients.
struct LoadedModel {
  TrainConfig config;                    // configuration of the training run
  std::optional<Vocabulary> vocabulary;  // of a translation model
  std::unique_ptr<Model> model;          // the kind that the configuration names
  Checkpoint checkpoint;
};

/// Loads weights, vocabulary and configuration from a checkpoint folder. `precision` is the data type of matmuls,
/// of int8 by read_quantized_weights().
/// Throws Failure that names the missing or damaged file, or the weight that is not finite.
LoadedModel load_model(const std::filesystem::path& folder, Backend& backend, DType precision);

/// Copies weights into the model's masters by name and refreshes the compute copies. `prefix`: what the names in the
/// file begin with. Throws Failure if a weight is not finite, or a parameter is missing or has another shape.
void read_weights(const TensorFiles& weights, Model& model, Backend& backend, const std::string& prefix = "");

/// A checkpoint written with training.ema has the average as its weights; those that training continues from are among
/// its moments, with names that begin so.
inline constexpr const char* raw_weight_prefix = "w.";

/// read_weights() of the weights that training continues from.
void read_trained_weights(const Checkpoint& checkpoint, Model& model, Backend& backend);

/// Sets the moments, and the average of the weights if there is one, of all ranks to those of rank 0's checkpoint;
/// other ranks pass null. Collective. Throws Failure on rank 0 if a tensor is missing or has another shape.
void load_moments(const Checkpoint* checkpoint, const ModelReplica& replica);

/// The state that a run needs, in addition to weights and moments, to resume as if never interrupted. Stored in each
/// checkpoint as state.json.
struct TrainingState {
  std::string run;  // run id, the same for all attempts
  std::int64_t attempt = 1;
  Progress progress;
  DataOrder data_order = DataOrder::shuffled;
  std::optional<DataPosition> position = DataPosition();  // nullopt in states of versions that stored the update only
  std::int64_t adam_steps = 0;
  std::int64_t ranks = 0, threads = 0;  // world size and threads per rank of the writing attempt; 0: unknown
  LibraryVersions libraries;            // of rank 0 of the writing attempt; unknown in states of older versions
  double elapsed_minutes = 0;           // training time including earlier attempts
  double best_score = -std::numeric_limits<double>::infinity();  // BLEU, or minus the loss if BLEU is off
  double best_loss = std::numeric_limits<double>::infinity();    // of that evaluation; decides between equal scores
  std::int64_t best_update = 0;                                  // of that evaluation; 0: unknown
  // By BLEU, for comparisons with that evaluation, on rank 0. Without scores: unknown. Other ranks have what they
  // resumed with.
  Resamples best_resamples;
  std::int64_t evaluations_since_best = 0;
  // How the scores above are measured: metric, tokenizer, set, its digest and what else changes them, see
  // Validator::scoring(). Only scores with equal members are compared. Empty: unknown, or nothing is validated.
  json::object scoring;
  std::int64_t rewinds = 0;  // rewinds after divergence; each halved the learning rate
  std::string corpus_digest;
  std::optional<LineSize> source_lines;  // usual size of the training set's source lines; none: not text, or unknown
};

json::object to_json(const TrainingState& state);
/// Throws Failure that names a missing member or one with the wrong type.
TrainingState run_state_from_json(const json::object& object);
/// Its source_lines alone, also from a state that has nothing else. Throws Failure if the member has a wrong type.
std::optional<LineSize> source_lines_of(const json::object& state);

}  // namespace babelring
