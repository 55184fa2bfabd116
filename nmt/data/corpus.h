#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "nmt/data/manifest.h"

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
  const std::string& name() const { return name_; }  // the file's; empty in memory
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

/// Identifies a pair by its ids, on any processor. Among 100 million pairs, the probability of any collision is 0.03 %.
std::uint64_t pair_hash(std::span<const std::int32_t> source, std::span<const std::int32_t> target);

/// A part of a corpus that has a name: sentences [first, last).
struct CorpusPart {
  std::string name;
  std::int64_t first = 0, last = 0;
};

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
  /// A corpus in memory; `links` as links() returns them. Throws Failure if the two sides have different sizes.
  static Corpus from_memory(const std::vector<std::vector<std::int32_t>>& sources,
                            const std::vector<std::vector<std::int32_t>>& targets,
                            const std::vector<std::vector<std::int32_t>>& links = {});

  std::int64_t sentences() const { return source_.sentences(); }
  /// The ids of sentence `i`. Throws Failure naming the file if an id lies outside the vocabulary.
  std::span<const std::int32_t> source(std::int64_t i) const { return source_[i]; }
  std::span<const std::int32_t> target(std::int64_t i) const { return target_[i]; }
  std::int64_t source_length(std::int64_t i) const { return source_.length(i); }
  std::int64_t target_length(std::int64_t i) const { return target_.length(i); }
  /// Begins to load what target_length(i) reads.
  void fetch_target_length(std::int64_t i) const { target_.fetch_length(i); }
  /// Opens the alignments of the set, so that has_links(), and makes them part of digest(). Throws UsageFailure naming
  /// the folder if the set was prepared without, Failure like open().
  void open_links(const Manifest& manifest, const std::string& set, bool verify = false);
  /// The parts with names, one after another, which are the whole corpus; empty: it has no names.
  const std::vector<CorpusPart>& parts() const { return parts_; }
  /// Sets the parts of a corpus in memory: names and their numbers of sentences. Throws Failure unless they are all.
  void set_parts(const std::vector<std::pair<std::string, std::int64_t>>& sizes);
  /// The number of the part that sentence `i` is in. The corpus must have parts.
  std::uint16_t part_of(std::int64_t i) const;
  bool has_links() const { return links_.sentences() > 0; }
  /// The alignment of sentence `i`: source and target piece of each pair of aligned pieces, in turn, sorted by target.
  /// Throws Failure naming the file if a piece lies outside the sentence.
  std::span<const std::int32_t> links(std::int64_t i) const;
  /// Total subwords, without </s>.
  std::int64_t source_tokens() const { return source_.tokens(); }
  std::int64_t target_tokens() const { return target_.tokens(); }
  /// A digest over all ids and their order: 64 hexadecimal digits. Derived from the file digests in the manifest for a
  /// prepared set, and from the ids for a corpus in memory.
  const std::string& digest() const { return digest_; }

 private:
  Corpus(IdSequences source, IdSequences target, std::string digest);
  IdSequences source_, target_, links_;
  std::vector<CorpusPart> parts_;
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
