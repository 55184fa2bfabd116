#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/id_file.h"
#include "nmt/data/manifest.h"

namespace babelring {

/// Sentence pairs as ids: memory-mapped from a prepared folder, or built in memory. Read-only, so any number of threads
/// may use it. Ids hold neither <s> nor </s>. Move-only; spans stay valid when it is moved.
class Corpus {
 public:
  /// Opens one set ("train", "valid", "test") of a folder written by `nmt prepare`. Sizes and counts are checked
  /// against the manifest always, SHA-256 digests if `verify` (reads everything). Throws Failure naming the file, what
  /// was found and what was expected.
  static Corpus open(const std::filesystem::path& folder, const std::string& set, bool verify = false);
  /// The same of a folder whose manifest is loaded: several sets are opened by one manifest, so that they fit each
  /// other even if `nmt prepare` writes the folder again meanwhile.
  static Corpus open(const Manifest& manifest, const std::string& set, bool verify = false);
  /// Pairs in memory. Throws Failure if the two sides have unequal counts.
  static Corpus from_memory(const std::vector<std::vector<std::int32_t>>& sources,
                            const std::vector<std::vector<std::int32_t>>& targets);

  std::int64_t sentences() const { return source_.sentences(); }
  /// The ids of a sentence. Throws Failure naming the file if one lies outside the vocabulary.
  std::span<const std::int32_t> source(std::int64_t i) const { return source_[i]; }
  std::span<const std::int32_t> target(std::int64_t i) const { return target_[i]; }
  std::int64_t source_length(std::int64_t i) const { return source_.length(i); }
  std::int64_t target_length(std::int64_t i) const { return target_.length(i); }
  /// Pieces of all sentences, without </s>.
  std::int64_t source_tokens() const { return source_.tokens(); }
  std::int64_t target_tokens() const { return target_.tokens(); }
  /// 64 hexadecimal digits that depend on all ids and their order: for a prepared set from its files' digests in the
  /// manifest, for one in memory from the ids.
  const std::string& digest() const { return digest_; }

 private:
  Corpus(IdSequences source, IdSequences target, std::string digest);
  IdSequences source_, target_;
  std::string digest_;
};

/// Raw lines of a held-out set, for BLEU: what the references and sources said before any tokenisation.
struct ParallelText {
  std::vector<std::string> source, target;

  /// The text kept with a set of a prepared folder, in the same order as Corpus::open(folder, set). Throws Failure if
  /// the set was stored without text or a file does not fit the manifest.
  static ParallelText open(const std::filesystem::path& folder, const std::string& set);
  static ParallelText open(const Manifest& manifest, const std::string& set);
};

}  // namespace babelring
