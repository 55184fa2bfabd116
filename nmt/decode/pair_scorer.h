#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nmt/data/line_reader.h"
#include "nmt/data/vocabulary.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// Lines of two texts, of which line i of one is the translation of line i of the other.
struct LinePairs {
  std::vector<std::string> sources, targets;                      // as read, up to LineReader::longest_bytes
  std::vector<std::vector<std::int32_t>> source_ids, target_ids;  // subwords without </s>, truncated if that is allowed

  std::size_t size() const { return sources.size(); }
};

struct PairInputOptions {
  std::string source, target;   // files, plain or compressed
  std::int64_t max_pieces = 0;  // of a line
  bool truncate = false;        // longer lines are cut; false: they are errors
  int threads = 0;              // that encode; 0: one per available CPU
};

/// Reads two texts side by side, some thousand lines at a time. A byte-order mark is skipped; an empty line has no
/// subwords.
class PairInput {
 public:
  /// Throws Failure if a file cannot be opened. The vocabulary must outlive the input.
  PairInput(PairInputOptions options, const Vocabulary& vocabulary);

  /// The next pairs; none at the end. Throws Failure that names file and line: read errors, invalid UTF-8, markup,
  /// lines that are too long; and if one text has more lines than the other, which names both numbers.
  LinePairs next();

  std::int64_t pairs() const { return source_.reader.lines(); }
  /// Number of lines that were cut, and the first of them: "FILE:LINE".
  std::int64_t cut() const { return cut_; }
  const std::string& first_cut() const { return first_cut_; }

 private:
  struct Side {
    LineReader reader;
    RawLine line;
  };
  bool read(Side& side) const;
  [[noreturn]] void fail_lengths();
  void encode(const Side& side, const std::vector<std::string>& lines, std::vector<std::vector<std::int32_t>>& ids);

  PairInputOptions options_;
  const Vocabulary& vocabulary_;
  Side source_, target_;
  std::int64_t cut_ = 0;
  std::string first_cut_;
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

}  // namespace babelring
