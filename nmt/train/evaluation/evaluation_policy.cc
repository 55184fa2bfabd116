#include "nmt/train/evaluation/evaluation_policy.h"

#include <cmath>

namespace babelring {

EvaluationPolicy::EvaluationPolicy(const ValidationConfig& config)
    : every_(config.every), bleu_every_(config.bleu_every), patience_(config.patience) {}

Evaluation EvaluationPolicy::due(const Progress& before, const Progress& now) const {
  if (bleu_every_.times(now) > bleu_every_.times(before)) return Evaluation::translations;
  return every_.times(now) > every_.times(before) ? Evaluation::scores : Evaluation::none;
}

bool EvaluationPolicy::done(Evaluation evaluation, std::int64_t update) const {
  return (evaluation == Evaluation::translations ? translated_update_ : scored_update_) == update;
}

void EvaluationPolicy::note(EvalRecord& record, Evaluation evaluation, TrainingState& state) {
  const bool translated = evaluation == Evaluation::translations;
  scored_update_ = record.update;
  if (translated) translated_update_ = record.update;
  if (translated || !by_bleu()) {
    const double score = by_bleu() ? record.sacrebleu : -record.loss;
    record.best = std::isfinite(record.loss) && score > state.best_score;
    if (record.best) state.best_score = score;
    state.evaluations_since_best = record.best ? 0 : state.evaluations_since_best + 1;
  }
  newest_ = record;
}

const EvalRecord* EvaluationPolicy::newest(std::int64_t update) const {
  return newest_.update == update ? &newest_ : nullptr;
}

bool EvaluationPolicy::out_of_patience(const TrainingState& state) const {
  return patience_ > 0 && state.evaluations_since_best >= patience_;
}

void EvaluationPolicy::rewind() {
  scored_update_ = translated_update_ = 0;
  newest_ = {};
}

}  // namespace babelring
