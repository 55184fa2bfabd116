#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/records/records.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"
#include "nmt/layers/context.h"
#include "nmt/metrics/bleu.h"
#include "nmt/metrics/metric.h"
#include "nmt/model/model.h"
#include "nmt/parallel/rank_context.h"
#include "nmt/train/evaluation/validator.h"
#include "nmt/train/setup/config.h"
#include "nmt/train/setup/task_data.h"

namespace babelring {

/// A validation set: subword ids, reference texts and the vocabulary that decodes ids. All must outlive the struct.
struct ValidationSet {
  const Corpus& corpus;
  const std::vector<std::string>& references;
  const Vocabulary& vocabulary;
};

/// Teacher-forced scores: each token is predicted from the reference prefix. Sums over sentences, so the results of
/// several ranks can be added.
struct TeacherForcedScores {
  LossSums losses;
  BleuCounts bleu;           // n-gram counts of the most likely subwords
  std::int64_t repeats = 0;  // of the subword before the predicted one, where the reference has another

  TeacherForcedScores& operator+=(const TeacherForcedScores& other) {
    losses += other.losses;
    bleu += other.bleu;
    repeats += other.repeats;
    return *this;
  }
  /// BLEU of the most likely subwords, by the one that counted them. NaN if most of them only repeat the subword
  /// before, as those of an untrained model with tied embeddings do: together they are the reference, moved by one
  /// place, which would score high.
  double bleu_score(const Bleu& by) const;
};

/// Arena sizes that teacher_forced() needs, for ActivationArenas::reserve(). A sentence of over 2,048 tokens needs
/// more.
ArenaBytes evaluation_need(const Model& model, Backend& backend);

/// Evaluates sentences [first, last) of the set. `bleu` counts the n-grams.
TeacherForcedScores teacher_forced(const Model& model, const ValidationSet& set, std::int64_t first, std::int64_t last,
                                   const Bleu& bleu, Backend& backend, ActivationArenas& arenas);

/// Sentence pairs with their text as references. The data folder may be deleted once they are open.
struct EvaluatedSet {
  std::string name;
  Corpus corpus;
  ParallelText text;
  bool resampled = false;  // rank 0 adds Resamples to the records of its translations
};

/// A set of a prepared folder, such as the validation set, under the name of its records. Throws Failure if it cannot
/// be read or was prepared with another vocabulary.
EvaluatedSet open_held_out_pairs(const OtherSet& set, const Vocabulary& vocabulary);
/// validation.train_sample pairs, spread evenly over those of the training set that are trained on, all if there are
/// fewer. References are the decoded subwords. Throws like open_held_out_pairs().
EvaluatedSet sample_training_set(const TrainConfig& config, const Vocabulary& vocabulary);

/// Evaluates a translation model on a set, as a rule the validation set: teacher-forced loss and BLEU, and optionally
/// sacreBLEU and chrF of beam-search translations. The sentences are divided among the ranks, or into units as those of
/// an update are, so that the number of ranks changes no bit.
class TranslationValidator : public Validator {
  /// Sentences [first, last).
  struct Range {
    std::int64_t first = 0, last = 0;
  };

 public:
  /// All references must outlive the validator. Throws UsageFailure if the tokenizer of BLEU is not installed here.
  TranslationValidator(const TrainConfig& config, const Vocabulary& vocabulary, const RankContext& rank,
                       EvaluatedSet set);

  /// Computes teacher-forced scores and, with `translate`, sacreBLEU, chrF and samples.
  EvalRecord run(const Model& model, bool translate) override;
  json::object scoring(const TrainConfig& config) const override;
  ArenaBytes need(const Model& model) const override { return evaluation_need(model, rank_.backend); }

 private:
  std::vector<Range> ranges(std::int64_t sentences) const;
  TeacherForcedScores over_ranks(std::vector<TeacherForcedScores> units) const;
  std::vector<std::string> translations(const Model& model, std::int64_t sentences) const;
  void score(const std::vector<std::string>& hypotheses, EvalRecord& record);

  const TrainConfig& config_;
  const Vocabulary& vocabulary_;
  RankContext rank_;
  RankPart part_;
  EvaluatedSet set_;
  Tokenizer tokenizer_;  // of bleu_
  Bleu bleu_;
  std::unique_ptr<const Metric> sacrebleu_, chrf_;  // of translations
  bool doubted_tokenizer_ = false;                  // a warning has been logged
};

}  // namespace babelring
