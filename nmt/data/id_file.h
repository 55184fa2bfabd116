#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mapped_file.h"

namespace babelring {

class AtomicFile;

/// The id sequences of one side of a parallel set, as one file. Little endian:
///
///     offset  content
///     0       "BABELIDS", u32 version = 1, u32 zero
///     16      i32 ids[tokens], then zeros up to a multiple of 8
///             u64 offsets[sentences + 1]: sentence i is ids[offsets[i] .. offsets[i + 1])
///             u64 sentences, u64 tokens, "IDS  END"
///
/// The counts stand at the end so that the file is written in one pass.
class IdFileWriter {
 public:
  /// The file appears under its name at finish(). Throws Failure.
  explicit IdFileWriter(const std::filesystem::path& file);
  ~IdFileWriter();

  /// Appends a sentence (pieces only, neither <s> nor </s>). Throws Failure on a full disk.
  void add(std::span<const std::int32_t> ids);
  /// Writes offsets and counts and makes the file visible, durably.
  void finish();

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(offsets_.back()); }

 private:
  void flush();
  std::unique_ptr<AtomicFile> file_;
  std::vector<std::int32_t> pending_;
  std::vector<std::uint64_t> offsets_ = {0};
};

/// Sentences of ids, mapped from a file of IdFileWriter or owned.
class IdSequences {
 public:
  IdSequences() = default;
  /// Maps a file and checks its structure (magic, version, size against counts, offsets in order). Throws Failure.
  IdSequences(const std::filesystem::path& file, std::int64_t vocabulary_size);
  /// Takes sentences in memory.
  explicit IdSequences(const std::vector<std::vector<std::int32_t>>& sentences);

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids_.size()); }
  /// Throws Failure if the file was overwritten since it was mapped, so that there is no such sentence any more.
  std::int64_t length(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    if (offsets_[at] > offsets_[at + 1] || offsets_[at + 1] > ids_.size()) fail_overwritten(i);
    return static_cast<std::int64_t>(offsets_[at + 1] - offsets_[at]);
  }
  /// Throws Failure if the file is damaged so that an id lies outside the vocabulary, where it would index past the
  /// embeddings. Checked here because reading the whole of a large file would delay the start of training.
  std::span<const std::int32_t> operator[](std::int64_t i) const;
  std::span<const std::int32_t> ids() const { return ids_; }
  std::span<const std::uint64_t> offsets() const { return offsets_; }

 private:
  [[noreturn]] void fail_overwritten(std::int64_t i) const;
  MappedFile file_;
  std::string name_;  // of the file
  std::int64_t vocabulary_size_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> owned_ids_;
  std::vector<std::uint64_t> owned_offsets_;
  std::span<const std::int32_t> ids_;
  std::span<const std::uint64_t> offsets_;
};

}  // namespace babelring
