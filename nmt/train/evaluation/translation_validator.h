#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/model.h"
#include "nmt/parallel/rank_context.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/evaluation/teacher_forced.h"
#include "nmt/train/evaluation/validator.h"
#include "nmt/train/setup/rank_part.h"

namespace babelring {

/// Sentence pairs with their text as references. The data folder may be deleted once they are open.
struct EvaluatedSet {
  std::string name;
  Corpus corpus;
  ParallelText text;
};

/// The validation set. Throws Failure if it cannot be read or was prepared with another vocabulary.
EvaluatedSet open_validation_set(const DataConfig& data, const Vocabulary& vocabulary);
/// validation.train_sample pairs, spread evenly over those of the training set that are trained on, all if there are
/// fewer. References are the decoded subwords. Throws like open_validation_set().
EvaluatedSet sample_training_set(const TrainConfig& config, const Vocabulary& vocabulary);

/// Evaluates a translation model on a set, as a rule the validation set: teacher-forced loss and BLEU, and optionally
/// sacreBLEU and chrF of beam-search translations. The sentences are divided among the ranks, or into units as those of
/// an update are, so that the number of ranks changes no bit.
class TranslationValidator : public Validator {
  /// Sentences [first, last).
  struct Share {
    std::int64_t first = 0, last = 0;
  };

 public:
  /// All references must outlive the validator.
  TranslationValidator(const TrainConfig& config, const Vocabulary& vocabulary, const RankContext& rank,
                       EvaluatedSet set);

  /// Computes teacher-forced scores and, with `translate`, sacreBLEU, chrF and samples.
  EvalRecord run(const Model& model, bool translate) override;
  json::object scoring(const TrainConfig& config) const override;
  ArenaBytes need(const Model& model) const override { return evaluation_need(model, rank_.backend); }

 private:
  std::vector<Share> shares(std::int64_t sentences) const;
  TeacherForcedScores over_ranks(std::vector<TeacherForcedScores> units) const;
  std::vector<std::string> translations(const Model& model, std::int64_t sentences) const;
  void score(const std::vector<std::string>& hypotheses, EvalRecord& record);

  const TrainConfig& config_;
  const Vocabulary& vocabulary_;
  RankContext rank_;
  RankPart part_;
  EvaluatedSet set_;
  Tokenizer tokenizer_;             // of BLEU
  bool doubted_tokenizer_ = false;  // a warning has been logged
};

}  // namespace babelring
