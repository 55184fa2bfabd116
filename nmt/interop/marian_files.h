#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "nmt/interop/npz.h"

namespace babelring {

/// The files of a model, in a folder or in a zip archive: there those beside decoder.yml. Each is named without its
/// folder; others are not seen.
class ModelFiles {
 public:
  /// Throws filesystem_error.
  explicit ModelFiles(const std::filesystem::path& folder);
  /// Throws Failure that names the entry, as ZipReader, and for a path that leaves the archive's folder, a symbolic
  /// link, and a file that would be a hundred times as large as it is in the archive.
  ModelFiles(const std::filesystem::path& archive, std::shared_ptr<const MappedFile> bytes);

  const std::vector<std::string>& names() const { return names_; }  // sorted
  bool has(const std::string& name) const;
  std::vector<std::string> ending_with(std::string_view suffix) const;
  /// The file for messages.
  std::string path(const std::string& name) const;
  /// Throws Failure if the file is absent, damaged or larger than 64 MiB.
  std::string text(const std::string& name) const;

  struct Content {
    std::shared_ptr<const void> owner;
    std::span<const std::byte> bytes;  // mapped
  };
  /// A file in its place, or, if it is deflated, unpacked into a file without a name in the folder `scratch`.
  Content content(const std::string& name, const std::filesystem::path& scratch) const;

 private:
  const ZipReader::Entry& entry(const std::string& name) const;

  std::filesystem::path location_;
  std::shared_ptr<const MappedFile> bytes_;
  std::optional<ZipReader> zip_;
  std::string prefix_;  // of the names in the archive
  std::vector<std::string> names_;
};

/// The files that a model consists of, by their names.
struct ModelParts {
  std::string model;
  std::vector<std::string> vocabularies;  // of source and target
};
/// The parts that decoder.yml names, or NAME.npz.decoder.yml, which Marian writes when it trains; without them the
/// usual names. `model`: the model's file; empty: the only one, or the best by perplexity. Throws UsageFailure if there
/// are several, Failure if there are no vocabularies of both sides.
ModelParts parts_of(const ModelFiles& files, std::string model);

}  // namespace babelring
