#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace babelring {

/// A file of a prepared folder as its manifest describes it.
struct ManifestFile {
  std::string name;  // within the folder
  std::int64_t bytes = 0;
  std::string sha256;
};

struct ManifestSet {
  std::string name;  // train, valid or test
  std::int64_t sentences = 0;
  std::int64_t source_tokens = 0, target_tokens = 0;  // pieces, without </s>
  ManifestFile source_ids, target_ids;
  std::optional<ManifestFile> source_text, target_text;  // raw lines, of held-out sets
};

/// What stands in a prepared folder: manifest.json, written last, so a folder with a manifest is complete.
struct Manifest {
  static constexpr std::int64_t format_version = 1;
  static constexpr const char* file_name = "manifest.json";

  std::filesystem::path folder;  // where it was loaded from
  std::string program;           // name and version of what wrote it
  ManifestFile vocabulary;
  std::int64_t vocabulary_size = 0;
  std::vector<ManifestSet> sets;
  json::object options;  // of `nmt prepare`, as used

  /// Throws Failure naming the folder and the sets there are.
  const ManifestSet& set(const std::string& name) const;
  /// Throws Failure unless the set has sentence pairs, and tokens on both sides. `key` is that of the configuration
  /// that names the set.
  void require_pairs(const std::string& name, std::string_view key) const;
};

/// Throws Failure naming the file and what is missing, malformed or of another version.
Manifest load_manifest(const std::filesystem::path& folder);
/// Atomic and durable. Throws Failure.
void save_manifest(const std::filesystem::path& folder, const Manifest& manifest);

/// Describes a file that was just written.
ManifestFile describe_file(const std::filesystem::path& folder, const std::string& name);
/// Throws Failure unless the file exists with its size, and its digest if `verify`: "X: 12 bytes, its manifest says
/// 13".
void check_file(const std::filesystem::path& folder, const ManifestFile& file, bool verify);

}  // namespace babelring
