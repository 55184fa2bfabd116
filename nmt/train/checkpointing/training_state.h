#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/records/library_versions.h"
#include "nmt/data/data_position.h"
#include "nmt/decode/split_source.h"
#include "nmt/optim/interval.h"

namespace babelring {

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
