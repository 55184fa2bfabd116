#pragma once

#include <boost/json/array.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "client/api_client.h"
#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"

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

/// Loads and encodes two line-aligned text files, plain or gzip. Throws Failure on invalid UTF-8 or different numbers
/// of lines.
EvaluationSet text_set(const std::filesystem::path& source, const std::filesystem::path& reference,
                       const Vocabulary& vocabulary);

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

  /// Posts `figures`, the object that `nmt evaluate --json` prints, with samples, and logs the success. Throws Failure
  /// if the server refuses it.
  void send(const json::object& figures, json::array samples);

 private:
  ApiClient api_;
  std::string id_, name_;
};

}  // namespace babelring
