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

/// Writes the id sequences of one side of a parallel set to a file. Little-endian layout:
///
///     offset  content
///     0       "BABELIDS", u32 version = 1, u32 zero
///     16      i32 ids[tokens], zero-padded to a multiple of 8 bytes
///             u64 offsets[sentences + 1]: sentence i is ids[offsets[i] .. offsets[i + 1])
///             u64 sentences, u64 tokens, "IDS  END"
///
/// The counts are at the end, so the file is written in one pass.
class IdFileWriter {
 public:
  /// The file becomes visible at finish(). Throws Failure.
  explicit IdFileWriter(const std::filesystem::path& file);
  ~IdFileWriter();

  /// Appends a sentence (subword ids without <s> and </s>). Throws Failure if the disk is full.
  void add(std::span<const std::int32_t> ids);
  /// Writes offsets and counts and makes the file visible and durable.
  void finish();

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(offsets_.back()); }

 private:
  void flush();
  std::unique_ptr<AtomicFile> file_;
  std::vector<std::int32_t> pending_;
  std::vector<std::uint64_t> offsets_ = {0};
};

/// Id sequences, memory-mapped from a file of IdFileWriter or held in memory.
class IdSequences {
 public:
  IdSequences() = default;
  /// Maps a file and checks its structure (magic, version, size against counts, order of offsets). Throws Failure.
  IdSequences(const std::filesystem::path& file, std::int64_t vocabulary_size);
  /// Copies sentences into memory.
  explicit IdSequences(const std::vector<std::vector<std::int32_t>>& sentences);

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets_.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids_.size()); }
  /// Throws Failure if the file was overwritten after it was mapped and no longer holds the sentence.
  std::int64_t length(std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    if (offsets_[at] > offsets_[at + 1] || offsets_[at + 1] > ids_.size()) fail_overwritten(i);
    return static_cast<std::int64_t>(offsets_[at + 1] - offsets_[at]);
  }
  /// Begins to load what length(i) reads, for a caller that asks in random order.
  void fetch_length(std::int64_t i) const { __builtin_prefetch(&offsets_[static_cast<std::size_t>(i)]); }
  /// Throws Failure if an id lies outside the vocabulary, because it would index past the embedding table. Checked on
  /// access, because checking a large file at start would delay training.
  std::span<const std::int32_t> operator[](std::int64_t i) const;
  std::span<const std::int32_t> ids() const { return ids_; }
  std::span<const std::uint64_t> offsets() const { return offsets_; }

 private:
  [[noreturn]] void fail_overwritten(std::int64_t i) const;
  MappedFile file_;
  std::string name_;  // file name, for messages
  std::int64_t vocabulary_size_ = std::numeric_limits<std::int64_t>::max();
  std::vector<std::int32_t> owned_ids_;
  std::vector<std::uint64_t> owned_offsets_;
  std::span<const std::int32_t> ids_;
  std::span<const std::uint64_t> offsets_;
};

}  // namespace babelring
