#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/decode/beam_options.h"
#include "nmt/decode/cached_decoder.h"
#include "nmt/decode/sentence_beam.h"

namespace babelring {

/// Beam search over many sentences at once. Each step feeds one row a live hypothesis of every unfinished sentence, so
/// the batch shrinks as hypotheses and sentences finish. In f32 the other sentences of a batch do not change what is
/// found, except where rounding decides between nearly equal scores. Deterministic. Not thread-safe.
class BeamSearch {
 public:
  /// Both must outlive the search, and the model's weights stay as they are: products read packed copies.
  BeamSearch(const Transformer& model, Backend& backend) : decoder_(model, backend) {}

  /// `sources` hold pieces, without </s>. Returns for each the n best, best first, at least one. A source without
  /// pieces is translated like any other: what it gives is up to the model. Throws UsageFailure on options out of
  /// range.
  std::vector<std::vector<Hypothesis>> search(std::span<const std::span<const std::int32_t>> sources,
                                              const BeamOptions& options);

  /// Memory that packed weights take.
  std::size_t packed_bytes() const { return decoder_.packed_bytes(); }

 private:
  void step(std::vector<SentenceBeam>& beams, const BeamOptions& options);

  CachedDecoder decoder_;
};

}  // namespace babelring
