#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/json.h"
#include "nmt/data/plan.h"
#include "nmt/optim/duration.h"

namespace babelring {

/// What a run needs, besides weights and moments, to resume as if it had never stopped.
struct RunState {
  std::string run;  // the run's id, kept over all attempts
  std::int64_t attempt = 1;
  Progress progress;
  DataOrder data_order = DataOrder::shuffled;
  std::optional<DataPosition> position = DataPosition();  // absent in states of versions that knew the update only
  std::int64_t adam_steps = 0;
  std::int64_t ranks = 0, threads = 0;  // of the attempt that wrote the state; 0 in states that do not say it
  double elapsed_minutes = 0;           // of training, earlier attempts counted in
  double best_score = -std::numeric_limits<double>::infinity();  // BLEU, or minus the loss without BLEU
  std::int64_t evaluations_since_best = 0;
  std::int64_t rewinds = 0;  // after divergence; each halved the learning rate
  std::string corpus_digest;
};

json::object to_json(const RunState& state);
/// Throws Failure naming the member that is missing or of the wrong kind.
RunState run_state_from_json(const json::object& object);

}  // namespace babelring
