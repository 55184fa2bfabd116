#pragma once

#include "base/json.h"
#include "base/records/records.h"
#include "nmt/layers/context.h"
#include "nmt/model/model.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Evaluates a model on a held-out set that is divided among the ranks.
class Validator {
 public:
  virtual ~Validator() = default;

  /// Collective; returns the same record on all ranks. The caller sets `update` and `best`. `translate`: also translate
  /// the set, if the model translates.
  virtual EvalRecord run(const Model& model, bool translate) = 0;
  /// How the scores, which decide on the best evaluation, are measured: the `metric` ("sacrebleu" or "loss"), the `set`
  /// with its digest, and each option that changes the number. Scores whose descriptions differ are not compared.
  virtual json::object scoring(const TrainConfig& config) const = 0;
  /// Arena sizes that run() needs, for ActivationArenas::reserve().
  virtual ArenaBytes need(const Model& model) const = 0;
};

/// Validator::scoring() without the set's digest, of the set that the configuration names. `tokenizer` is that of BLEU.
json::object scoring_options(const TrainConfig& config, Tokenizer tokenizer);

}  // namespace babelring
