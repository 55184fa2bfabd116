#pragma once

#include <cstdint>
#include <vector>

namespace babelring {

/// Concatenated sentences without padding. Sentence i is ids[offsets[i] .. offsets[i+1]).
struct PackedSequences {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> offsets = {0};  // size(): sentences + 1

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
  std::int32_t length(std::size_t sentence) const { return offsets[sentence + 1] - offsets[sentence]; }
};

/// The source pieces that each target piece is aligned with: row i of target_out has sources[offsets[i] .. offsets[i +
/// 1]), positions in its source sentence.
struct PackedLinks {
  std::vector<std::int32_t> offsets;  // [target tokens + 1]; empty: there are no alignments
  std::vector<std::int32_t> sources;  // [at least offsets.back()]
};

/// One micro-batch of one rank, in host memory, as subword ids.
/// source: subwords then </s>. target_in: <s> then subwords. target_out: subwords then </s>, with target_in's offsets.
struct PackedBatch {
  PackedSequences source;
  PackedSequences target_in;
  std::vector<std::int32_t> target_out;
  PackedLinks links;
  // Index of the batch's first token among all source (target) tokens of the update, counted over all ranks and
  // micro-batches. Dropout bits are derived from it.
  std::int64_t first_source_row = 0;
  std::int64_t first_target_row = 0;
  std::int64_t first_sentence = 0;     // likewise, of its first sentence
  std::vector<std::uint16_t> corpora;  // of each sentence: the part of the corpus that it is in; empty: not known
};

}  // namespace babelring
