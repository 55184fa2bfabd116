#pragma once

#include <string>
#include <vector>

#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"
#include "nmt/layers/workspace.h"
#include "nmt/metrics/bleu.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// A held-out set: pieces, the raw lines of the targets, and what turns the one into the other.
struct HeldOut {
  const Corpus& corpus;
  const std::vector<std::string>& references;
  const Vocabulary& vocabulary;
};

/// Sums over sentences, each piece predicted from the reference before it; ranks' sums can be added up.
struct TeacherForced {
  LossSums losses;
  BleuCounts bleu;  // of the likeliest pieces, as `bleu` counts them
};

/// What the batches of teacher_forced() need, for Workspace::reserve(); a sentence of over 2,048 tokens needs more.
ArenaBytes evaluation_need(const Transformer& model, Backend& backend);

/// Evaluates the sentences [first, last).
TeacherForced teacher_forced(const Transformer& model, const HeldOut& set, std::int64_t first, std::int64_t last,
                             const Bleu& bleu, Backend& backend, Workspace& workspace);

}  // namespace babelring
