#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "nmt/base/mapped_file.h"

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
  explicit IdSequences(const std::filesystem::path& file);
  /// Takes sentences in memory.
  explicit IdSequences(const std::vector<std::vector<std::int32_t>>& sentences);

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids_.size()); }
  std::int64_t length(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return static_cast<std::int64_t>(offsets_[at + 1] - offsets_[at]);
  }
  std::span<const std::int32_t> operator[](std::int64_t i) const {
    return ids_.subspan(offsets_[static_cast<std::size_t>(i)], static_cast<std::size_t>(length(i)));
  }
  std::span<const std::int32_t> ids() const { return ids_; }
  std::span<const std::uint64_t> offsets() const { return offsets_; }

 private:
  MappedFile file_;
  std::vector<std::int32_t> owned_ids_;
  std::vector<std::uint64_t> owned_offsets_;
  std::span<const std::int32_t> ids_;
  std::span<const std::uint64_t> offsets_;
};

}  // namespace babelring
