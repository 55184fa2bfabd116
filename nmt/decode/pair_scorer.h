#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/pair_source.h"
#include "nmt/data/vocabulary.h"
#include "nmt/decode/cached_decoder.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// Lines of two texts, of which line i of one is the translation of line i of the other.
struct LinePairs {
  std::vector<std::string> sources, targets;                      // as read, up to LineReader::longest_bytes
  std::vector<std::int64_t> source_lines, target_lines;           // their numbers in the files
  std::vector<std::vector<std::int32_t>> source_ids, target_ids;  // subwords without </s>, truncated if that is allowed

  std::size_t size() const { return sources.size(); }
};

struct PairInputOptions {
  std::string source, target;   // files, plain or compressed; target: empty if `source` holds both sides
  PairChoice choice;            // of a file that holds both sides
  std::int64_t max_pieces = 0;  // of a line
  bool truncate = false;        // longer lines are cut; false: they are errors
  int threads = 0;              // that encode; 0: one per available CPU
};

/// Reads two texts side by side, or one file that holds both, some thousand pairs at a time. A byte-order mark is
/// skipped; an empty line has no subwords; what lacks a column or a language is left out.
class PairInput {
 public:
  /// Throws Failure if a file cannot be opened. The vocabulary must outlive the input.
  PairInput(PairInputOptions options, const Vocabulary& vocabulary);

  /// The next pairs; none at the end. Throws Failure that names file and line: read errors, invalid UTF-8, markup,
  /// lines that are too long; and if one text has more lines than the other, which names both numbers.
  LinePairs next();

  std::int64_t pairs() const { return pairs_; }
  /// Number of units or lines without both sides, and the first of them: "FILE:LINE".
  std::int64_t incomplete() const { return incomplete_; }
  const std::string& first_incomplete() const { return first_incomplete_; }
  /// Number of lines that were cut, and the first of them: "FILE:LINE".
  std::int64_t cut() const { return cut_; }
  const std::string& first_cut() const { return first_cut_; }

 private:
  void check(const std::filesystem::path& file, RawLine& line) const;
  [[noreturn]] void fail_lengths();
  std::vector<std::vector<std::int32_t>> encode(TextSide side, const std::vector<std::string>& lines,
                                                const std::vector<std::int64_t>& numbers);

  PairInputOptions options_;
  const Vocabulary& vocabulary_;
  std::unique_ptr<PairSource> source_;
  std::int64_t pairs_ = 0, incomplete_ = 0, cut_ = 0;
  std::string first_incomplete_, first_cut_;
};

/// Computes log-probabilities of targets given their sources. In f32 on the CPU they do not depend on the other pairs,
/// on the size of batches or on threads, because packed weights make a row's products independent of its neighbours.
/// Not thread-safe.
class PairScorer {
 public:
  /// All must outlive the scorer. The model's weights must not change, because matmuls read packed copies. A batch has
  /// up to `batch_tokens` source and target tokens (</s> included), or a single longer pair.
  PairScorer(const Transformer& model, Backend& backend, ActivationArenas& arenas, std::int64_t batch_tokens)
      : model_(model), backend_(backend), arenas_(arenas), packed_(backend), batch_tokens_(batch_tokens) {}

  /// For each pair the natural logarithm of the probability of each target subword and then of </s>, given the source
  /// and the target's subwords before.
  std::vector<std::vector<float>> score(const LinePairs& pairs);

 private:
  const Transformer& model_;
  Backend& backend_;
  ActivationArenas& arenas_;
  PackedWeights packed_;
  std::int64_t batch_tokens_;
};

/// Aligns targets with their sources by the attention of a model that is led through the target, as `nmt translate
/// --alignment` aligns a translation. Not thread-safe.
class PairAligner {
 public:
  /// Both must outlive the aligner, and the model must not change.
  PairAligner(const Transformer& model, Backend& backend, const AttentionChoice& choice);

  /// The aligned pieces of each pair, as aligned_pieces() has them.
  std::vector<std::vector<AlignedPair>> align(const LinePairs& pairs);

 private:
  void align_batch(const LinePairs& pairs, std::span<const std::size_t> batch,
                   std::vector<std::vector<AlignedPair>>& aligned);

  CachedDecoder decoder_;
  bool lists_;  // the backend takes lists of candidates
};

}  // namespace babelring
