#pragma once

#include <boost/json/array.hpp>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/records/resamples.h"
#include "client/api_client.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"
#include "nmt/decode/translator.h"
#include "nmt/metrics/bleu.h"
#include "nmt/train/checkpointing/training_state.h"
#include "nmt/train/setup/config.h"

namespace babelring {

/// A held-out set: sentence pairs as subword ids, and the raw reference lines.
struct EvaluationSet {
  std::string name;
  Corpus corpus;
  std::vector<std::string> references;
};

/// Loads a held-out set from a folder written by `nmt prepare`. Throws UsageFailure if a file differs from its digest,
/// Failure if it cannot be read or was prepared with another vocabulary.
EvaluationSet prepared_set(const std::filesystem::path& folder, const std::string& set, const Vocabulary& vocabulary);

/// Loads and encodes two line-aligned text files, plain or compressed. Throws Failure on invalid UTF-8 or different
/// numbers of lines.
EvaluationSet text_set(const std::filesystem::path& source, const std::filesystem::path& reference,
                       const Vocabulary& vocabulary);

/// The sets that `text` names, separated by commas: validation sets of the run, or NAME=FOLDER, NAME=FOLDER:SET,
/// NAME=SOURCE:REFERENCE; all validation sets of the run if it is empty. `config`: of the run. Throws UsageFailure that
/// begins with `option`.
std::vector<OtherSet> chosen_sets(const std::string& text, const TrainConfig& config, std::string_view option);

/// Opens such a set under its name: text_set() if its folder is a file, whose reference is then the set, else
/// prepared_set().
EvaluationSet named_set(const OtherSet& chosen, const Vocabulary& vocabulary);

/// Scores of a translation model on a set.
struct SetScores {
  LossSums losses;                      // teacher-forced, as is the next
  double teacher_forced_bleu = 0;       // by the likeliest subwords
  std::vector<std::string> hypotheses;  // of all sentences; empty if nothing was translated
  double seconds = 0;                   // for translating
};

/// Evaluates all sentences. `bleu` scores the likeliest subwords; `search`: how the set is translated; null: not at
/// all. Logs what was cut. Throws UsageFailure if the model does not translate.
SetScores score_set(const LoadedModel& loaded, const EvaluationSet& set, const Bleu& bleu,
                    const TranslateOptions* search, Backend& backend);

/// Sample translations for send(), evenly spaced over the set. Skips those that exceed the server's length limit.
json::array samples_of(const EvaluationSet& set, const std::vector<std::string>& hypotheses,
                       const Vocabulary& vocabulary);

/// Adds an evaluation to a run on a server.
class EvaluationReport {
 public:
  /// Finds the run by id, name or a unique prefix of either. Throws Failure if the server or the run is not found.
  EvaluationReport(const ServerAccess& access, const std::string& run);

  /// Logs a warning if the checkpoint is from another run.
  void compare(const json::object& checkpoint_state) const;

  /// Posts `figures`, the object that `nmt evaluate --json` prints, with samples, and logs the success; with
  /// `resamples` also how much better that is than the run's best validation, if the texts are the same. Throws Failure
  /// if the server refuses it.
  void send(const json::object& figures, json::array samples, const std::vector<Resamples>& resamples = {});

 private:
  ApiClient api_;
  std::string id_, name_;
};

}  // namespace babelring
