#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "nmt/data/corpus.h"
#include "nmt/data/vocabulary.h"

namespace babelring {

/// Sentence pairs as ids and the raw lines of their targets.
struct EvaluationSet {
  std::string name;
  Corpus corpus;
  std::vector<std::string> references;
};

/// A held-out set of a folder written by `nmt prepare`. Throws Failure, also when it was prepared with another
/// vocabulary.
EvaluationSet prepared_set(const std::filesystem::path& folder, const std::string& set, const Vocabulary& vocabulary);

/// Two text files, plain or gzipped, whose n-th lines belong together. Throws Failure on text that is not UTF-8 or
/// files of unequal length.
EvaluationSet text_set(const std::filesystem::path& source, const std::filesystem::path& reference,
                       const Vocabulary& vocabulary);

}  // namespace babelring
