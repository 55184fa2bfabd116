#pragma once

#include <cstdint>
#include <string>

#include "base/records/records.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// Scores that an evaluation computes: nothing, the teacher-forced scores, or also translations with BLEU.
enum class Evaluation { none, scores, translations };

/// Says in the record with which others its numbers are comparable. `scoring`: of Validator::scoring(); empty: unknown.
void describe_scoring(EvalRecord& record, const json::object& scoring);

/// Decides when the model is evaluated, which evaluation is the best, and when training has gone on too long without a
/// better one. Makes the same decisions on all ranks. The best score is kept in the TrainingState, so that a resumed
/// run continues with it.
class EvaluationPolicy {
 public:
  explicit EvaluationPolicy(const ValidationConfig& config);

  /// The evaluation that became due between two states of training.
  Evaluation due(const Progress& before, const Progress& now) const;
  /// The evaluation after the last update.
  Evaluation at_end() const { return by_bleu() ? Evaluation::translations : Evaluation::scores; }
  /// True if the model of this update has already been evaluated so. Translating includes the scores.
  bool done(Evaluation evaluation, std::int64_t update) const;

  /// Notes a new evaluation. Sets `record.best`, `set_digest`, `scoring` and the difference to the best one before, and
  /// the best score in `state`: BLEU, or minus the loss if BLEU is off. Between equal scores the lower loss is the
  /// better one. A record that is not the best loses its resamples.
  void note(EvalRecord& record, Evaluation evaluation, TrainingState& state);
  /// The newest evaluation if it was made at this update, otherwise null.
  const EvalRecord* newest(std::int64_t update) const;
  /// True if training should end early, see validation.patience.
  bool out_of_patience(const TrainingState& state) const;
  /// "5 evaluations without a better one; the last, BLEU 31.20, is 0.20 BLEU worse than update 400 (p = 0.38)".
  std::string patience_text(const TrainingState& state) const;
  /// Forgets evaluations, for training that continues from an older state.
  void rewind();

 private:
  bool by_bleu() const { return bleu_every_.value() > 0; }

  Interval every_, bleu_every_, patience_after_;
  int patience_;
  std::int64_t scored_update_ = 0, translated_update_ = 0;
  EvalRecord newest_;
};

}  // namespace babelring
