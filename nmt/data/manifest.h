#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/names.h"

namespace babelring {

/// The max number of named corpora of a training set; the server takes as many in a record.
inline constexpr std::size_t max_corpora = 256;

/// A part of a training set that has a name. The parts follow one another and are the whole set; none is empty.
struct ManifestCorpus {
  std::string name, tag;  // tag: that its source sentences begin with; empty: none
  std::int64_t sentences = 0;
  std::int64_t source_tokens = 0, target_tokens = 0;  // without </s>
};

struct ManifestSet {
  std::string name;  // train, valid or test
  std::int64_t sentences = 0;
  std::int64_t source_tokens = 0, target_tokens = 0;  // without </s>
  std::optional<ManifestFile> source_ids;             // absent for generated sequences, which have a target side only
  ManifestFile target_ids;
  std::optional<ManifestFile> source_text, target_text;  // raw text; only for held-out sets
  std::optional<ManifestFile> links;                     // aligned pieces; only of train, with --align
  std::vector<ManifestCorpus> corpora;                   // only of train, with --as; empty: it has no names

  /// A digest of the ids of both sides.
  std::string digest() const;
};

/// The content of a prepared folder, stored in manifest.json. It is written last, so a folder with a manifest is
/// complete.
struct Manifest {
  static constexpr std::int64_t format_version = 1;
  static constexpr const char* file_name = "manifest.json";

  std::filesystem::path folder;  // folder it was loaded from
  std::string program;           // name and version of the program that wrote it
  ManifestFile vocabulary;       // SentencePiece model; of generated sequences: the generator's configuration
  std::int64_t vocabulary_size = 0;
  std::vector<ManifestSet> sets;
  json::object options;  // options of `nmt prepare` or `nmt gssm data`

  /// Returns the set `name`. Throws Failure naming the folder and its sets if there is none.
  const ManifestSet& set(const std::string& name) const;
  /// The files of the set `name`, ids and text. Throws like set().
  std::vector<ManifestFile> files_of(const std::string& name) const;
  /// Throws Failure unless the set has sentence pairs, and tokens on both sides. `key` is the configuration key that
  /// names the set.
  void require_pairs(const std::string& name, std::string_view key) const;
};

/// Throws Failure naming the file and its missing, malformed or unsupported member.
Manifest load_manifest(const std::filesystem::path& folder);
/// Writes the manifest atomically and durably. Throws Failure.
void save_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// Replaces what is in `folder`: removes its manifest, moves the finished files there from `work`, a folder below it,
/// and writes the manifest last. Throws Failure.
void publish_folder(const std::filesystem::path& folder, const std::filesystem::path& work,
                    const std::vector<std::string>& finished, const Manifest& manifest);

/// Returns a file's entry for the manifest: name, size and digest.
ManifestFile describe_file(const std::filesystem::path& folder, const std::string& name);
/// Throws UsageFailure unless the file has the listed size and, with `verify`, the listed digest, for which it is read.
void check_file(const std::filesystem::path& folder, const ManifestFile& file, bool verify);

}  // namespace babelring
