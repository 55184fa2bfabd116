#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "nmt/decode/cached_decoder.h"

namespace babelring {

/// Batched beam search. Each step feeds one row per live hypothesis of every unfinished sentence, so the batch shrinks
/// as hypotheses and sentences finish. In f32 the result for a sentence does not depend on the other sentences in the
/// batch, except where rounding decides between nearly equal scores. Deterministic. Not thread-safe.
class BeamSearch {
 public:
  /// `model` and `backend` must outlive the search. The model's weights must not change, because matmuls read packed
  /// copies; if `originals` are released, the model is of no use to anybody else.
  BeamSearch(const Transformer& model, Backend& backend,
             PackedWeights::Originals originals = PackedWeights::Originals::kept)
      : decoder_({{{.model = &model}}}, Combination::probabilities, backend, originals) {}
  /// The same with an ensemble, which has one vocabulary.
  BeamSearch(std::span<const EnsembleMember> members, Combination combination, Backend& backend)
      : decoder_(members, combination, backend) {}

  /// Translates `sources` (subword ids without </s>). Returns the n best hypotheses of each source, best first, at
  /// least one. An empty source is translated like any other. Throws UsageFailure if an option is out of range.
  using Observer = std::function<void(std::size_t sentence, const SentenceBeam& beam)>;
  struct Extras {
    std::span<const Constraints* const> constraints = {};  // of each source, null: none; empty: none for all
    IdLists lists = {};                                    // of each source, with the pieces that constraints need
    // Called after each step with each sentence of that step: its index and its beam. May be empty, and may throw.
    Observer observer = {};
  };
  std::vector<std::vector<Hypothesis>> search(std::span<const std::span<const std::int32_t>> sources,
                                              const BeamOptions& options, const Extras& extras);
  std::vector<std::vector<Hypothesis>> search(std::span<const std::span<const std::int32_t>> sources,
                                              const BeamOptions& options) {
    return search(sources, options, Extras());
  }

  /// The model part, for other searches of the same models. Not between the steps of a search.
  EnsembleDecoder& decoder() { return decoder_; }

  /// From the next search on, keeps the attention of the first model, for attention().
  void keep_attention(const std::optional<AttentionChoice>& choice) { decoder_.keep_attention(choice); }
  /// The attention of a translation that the last search, or the present one so far, found for a source (ids without
  /// </s>).
  Attention attention(std::size_t sentence, std::span<const std::int32_t> ids) {
    return decoder_.attention(sentence, ids);
  }

  /// Calls `observer` with the input of each matmul from now on, in the backend's memory; no longer if it is empty.
  void observe_inputs(CachedDecoder::MatmulInput observer) { decoder_.observe_inputs(std::move(observer)); }

  /// Bytes of the packed weights.
  std::size_t packed_bytes() const { return decoder_.packed_bytes(); }

 private:
  void step(std::vector<SentenceBeam>& beams, const BeamOptions& options, const Observer& observer);
  std::vector<NextTokens> next_by_model(const SentenceBeam& beam) const;
  std::vector<NextTokens> next_by_rules(const SentenceBeam& beam, const BeamOptions& options);

  /// The best next tokens of a hypothesis.
  struct Best {
    std::vector<float> log_probabilities;
    std::vector<std::int32_t> ids;
  };
  EnsembleDecoder decoder_;
  std::vector<Best> best_;       // of a beam's hypotheses, where rules choose them
  std::vector<float> original_;  // log-probabilities before the rules
};

}  // namespace babelring
