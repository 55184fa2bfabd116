#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/id_file.h"
#include "nmt/data/manifest.h"

namespace babelring {

/// Sentence pairs as subword ids, memory-mapped from a prepared folder or held in memory. Read-only and thread-safe.
/// Ids exclude <s> and </s>. Move-only; spans stay valid after a move.
class Corpus {
 public:
  /// Opens one set ("train", "valid" or "test") of a folder written by `nmt prepare`. Always checks sizes and counts
  /// against the manifest; with `verify`, also SHA-256 digests, which reads all files. Throws Failure naming the file,
  /// the value found and the value expected.
  static Corpus open(const std::filesystem::path& folder, const std::string& set, bool verify = false);
  /// Opens a set by a loaded manifest. Sets opened by one manifest are consistent, even if `nmt prepare` rewrites the
  /// folder in between.
  static Corpus open(const Manifest& manifest, const std::string& set, bool verify = false);
  /// A corpus in memory. Throws Failure if the two sides have different sizes.
  static Corpus from_memory(const std::vector<std::vector<std::int32_t>>& sources,
                            const std::vector<std::vector<std::int32_t>>& targets);

  std::int64_t sentences() const { return source_.sentences(); }
  /// The ids of sentence `i`. Throws Failure naming the file if an id lies outside the vocabulary.
  std::span<const std::int32_t> source(std::int64_t i) const { return source_[i]; }
  std::span<const std::int32_t> target(std::int64_t i) const { return target_[i]; }
  std::int64_t source_length(std::int64_t i) const { return source_.length(i); }
  std::int64_t target_length(std::int64_t i) const { return target_.length(i); }
  /// Begins to load what target_length(i) reads.
  void fetch_target_length(std::int64_t i) const { target_.fetch_length(i); }
  /// Total subwords, without </s>.
  std::int64_t source_tokens() const { return source_.tokens(); }
  std::int64_t target_tokens() const { return target_.tokens(); }
  /// A digest over all ids and their order: 64 hexadecimal digits. Derived from the file digests in the manifest for a
  /// prepared set, and from the ids for a corpus in memory.
  const std::string& digest() const { return digest_; }

 private:
  Corpus(IdSequences source, IdSequences target, std::string digest);
  IdSequences source_, target_;
  std::string digest_;
};

/// The raw text of a held-out set, before tokenisation. Used as reference for BLEU.
struct ParallelText {
  std::vector<std::string> source, target;

  /// Reads the text of a prepared set, in the order of Corpus::open(folder, set). Throws Failure if the set was stored
  /// without text or a file does not match the manifest.
  /// `verify`: as for Corpus::open().
  static ParallelText open(const std::filesystem::path& folder, const std::string& set, bool verify = false);
  static ParallelText open(const Manifest& manifest, const std::string& set, bool verify = false);
};

}  // namespace babelring
