#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/data/word_aligner.h"
#include "nmt/decode/constraints.h"

namespace babelring {

/// Which target pieces may render each source piece. A search that takes them as its only candidates computes a small
/// part of the output layer. Source: Jean et al. 2015, "On Using Very Large Target Vocabulary for Neural Machine
/// Translation", section 3.2; the pieces of a sentence are its own, not those of a batch. Immutable, so thread-safe.
class Shortlist {
 public:
  /// `pieces`: of each source piece, by id; `frequent`: of every source. Throws Failure if there are not as many as
  /// the vocabulary has pieces.
  Shortlist(std::vector<std::vector<std::int32_t>> pieces, std::vector<std::int32_t> frequent,
            const Vocabulary& vocabulary);

  /// Reads a file of save(). Throws Failure that begins with the file if it is no such file or damaged, UsageFailure if
  /// it is of another vocabulary.
  static Shortlist load(const std::filesystem::path& file, const Vocabulary& vocabulary);
  /// Writes a file of safetensors: docs/formats.md. Throws Failure.
  void save(const std::filesystem::path& file) const;

  /// The ids that a translation of the source (without </s>) may have, ascending: those of its pieces and the pieces
  /// themselves, as names stay; the frequent ones, <unk>, </s> and pieces that stand for bytes; and those that
  /// `constraints` need, unless it is null.
  std::vector<std::int32_t> list_of(std::span<const std::int32_t> source,
                                    const Constraints* constraints = nullptr) const;

  const std::vector<std::int32_t>& pieces_of(std::int32_t source) const {
    return pieces_[static_cast<std::size_t>(source)];
  }
  const std::vector<std::int32_t>& frequent() const { return frequent_; }

 private:
  std::vector<std::vector<std::int32_t>> pieces_;
  std::vector<std::int32_t> frequent_, usual_;  // usual_: in each list, ascending
  std::string vocabulary_;                      // its digest
};

/// Counts aligned pieces, from which it makes a Shortlist. The counts are whole numbers, so their order changes
/// nothing.
class ShortlistCounts {
 public:
  void add(std::span<const std::int32_t> source, std::span<const std::int32_t> target,
           std::span<const AlignedPair> pairs);

  /// The `best` target pieces that were most often aligned with each source piece, and the `frequent` most frequent
  /// ones of all; of equal counts those with the smaller ids.
  Shortlist shortlist(std::int64_t best, std::int64_t frequent, const Vocabulary& vocabulary) const;

 private:
  std::unordered_map<std::uint64_t, std::int64_t> aligned_;  // by source and target piece
  std::unordered_map<std::int32_t, std::int64_t> occurred_;  // by target piece
};

}  // namespace babelring
