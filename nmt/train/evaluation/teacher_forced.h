#pragma once

#include <string>
#include <vector>

#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"
#include "nmt/layers/activation_arenas.h"
#include "nmt/metrics/bleu.h"
#include "nmt/model/model.h"

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

}  // namespace babelring
