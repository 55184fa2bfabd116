#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/records.h"
#include "nmt/comm/communicator.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"
#include "nmt/layers/workspace.h"
#include "nmt/model/transformer.h"
#include "nmt/train/config.h"
#include "nmt/train/teacher_forced.h"

namespace babelring {

/// Validation on a held-out set, each rank taking its share: teacher-forced loss and BLEU, and BLEU of beam-search
/// output.
class Validator {
  struct HeldOutSet {
    Corpus corpus;
    ParallelText text;
  };
  static HeldOutSet open(const DataConfig& data, const Vocabulary& vocabulary);

 public:
  /// Opens the valid set, all that is ever read of it: the folder may vanish later. All references must outlive the
  /// validator. Throws Failure, also if the folder was prepared with another vocabulary.
  Validator(const TrainConfig& config, const Vocabulary& vocabulary, Backend& backend, Communicator& communicator,
            Workspace& workspace);

  /// The teacher-forced scores, and with `translate` sacreBLEU, chrF and samples; the same on all ranks. The caller
  /// sets `update` and `best`.
  EvalRecord run(const Transformer& model, bool translate) const;

 private:
  TeacherForced over_ranks(TeacherForced sums) const;
  std::vector<std::string> translations(const Transformer& model, std::int64_t sentences) const;
  void score(const std::vector<std::string>& hypotheses, EvalRecord& record) const;

  const TrainConfig& config_;
  const Vocabulary& vocabulary_;
  Backend& backend_;
  Communicator& communicator_;
  Workspace& workspace_;
  HeldOutSet set_;
};

}  // namespace babelring
