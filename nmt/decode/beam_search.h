#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/decode/beam_options.h"
#include "nmt/decode/cached_decoder.h"
#include "nmt/decode/sentence_beam.h"

namespace babelring {

/// Batched beam search. Each step feeds one row per live hypothesis of every unfinished sentence, so the batch shrinks
/// as hypotheses and sentences finish. In f32 the result for a sentence does not depend on the other sentences in the
/// batch, except where rounding decides between nearly equal scores. Deterministic. Not thread-safe.
class BeamSearch {
 public:
  /// `model` and `backend` must outlive the search. The model's weights must not change, because matmuls read packed
  /// copies.
  BeamSearch(const Transformer& model, Backend& backend) : decoder_(model, backend) {}

  /// Translates `sources` (subword ids without </s>). Returns the n best hypotheses of each source, best first, at
  /// least one. An empty source is translated like any other. Throws UsageFailure if an option is out of range.
  std::vector<std::vector<Hypothesis>> search(std::span<const std::span<const std::int32_t>> sources,
                                              const BeamOptions& options);

  /// Bytes of the packed weights.
  std::size_t packed_bytes() const { return decoder_.packed_bytes(); }

 private:
  void step(std::vector<SentenceBeam>& beams, const BeamOptions& options);

  CachedDecoder decoder_;
};

}  // namespace babelring
