#pragma once

#include <filesystem>
#include <string>
#include <vector>

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

}  // namespace babelring
