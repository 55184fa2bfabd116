#include "cli/evaluation_set.h"

#include <utility>

#include "base/failure.h"
#include "nmt/data/encode_lines.h"
#include "nmt/data/line_reader.h"
#include "nmt/data/manifest.h"

namespace babelring {

EvaluationSet prepared_set(const std::filesystem::path& folder, const std::string& set, const Vocabulary& vocabulary) {
  const Manifest manifest = load_manifest(folder);
  const std::string& prepared_with = manifest.vocabulary.sha256;
  if (prepared_with != vocabulary.digest()) {
    fail("{}: prepared with vocabulary {:.12}, but the checkpoint has {:.12}", folder.string(), prepared_with,
         vocabulary.digest());
  }
  return {.name = set,
          .corpus = Corpus::open(manifest, set, true),
          .references = ParallelText::open(manifest, set, true).target};
}

EvaluationSet text_set(const std::filesystem::path& source, const std::filesystem::path& reference,
                       const Vocabulary& vocabulary) {
  const std::vector<std::string> sources = read_text_lines(source);
  std::vector<std::string> references = read_text_lines(reference);
  if (sources.size() != references.size()) {
    fail("evaluate: {} has {} lines, {} has {}", source.string(), sources.size(), reference.string(),
         references.size());
  }
  return {.name = source.filename().string(),
          .corpus = Corpus::from_memory(encode_lines(sources, vocabulary, 0), encode_lines(references, vocabulary, 0)),
          .references = std::move(references)};
}

}  // namespace babelring
