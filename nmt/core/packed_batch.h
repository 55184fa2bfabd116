#pragma once

#include <cstdint>
#include <vector>

namespace babelring {

/// Sentences laid end to end: sentence i is ids[offsets[i] .. offsets[i+1]). No padding.
struct PackedSequences {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> offsets = {0};  // size(): sentences + 1

  std::int64_t sentences() const { return static_cast<std::int64_t>(offsets.size()) - 1; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids.size()); }
};

/// The sentences of one micro-batch of one rank, on the host.
/// source: pieces and </s>. target_in: <s> and pieces; target_out: pieces and </s>, same offsets as target_in.
struct PackedBatch {
  PackedSequences source;
  PackedSequences target_in;
  std::vector<std::int32_t> target_out;
  std::int64_t first_source_row = 0;  // tokens of the update that stand before this batch, over all ranks and
  std::int64_t first_target_row = 0;  // micro-batches: keys of dropout bits
};

}  // namespace babelring
