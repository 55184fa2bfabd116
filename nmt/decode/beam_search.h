#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "nmt/decode/sentence_beam.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// The model part of beam search. Encodes a batch of sentences once, then extends hypotheses by one token per step,
/// caching the keys and values of all earlier positions. Cached values are never copied: a hypothesis only records
/// which cache rows hold its prefix. Memory and packed weights are kept between batches, so the model must not change
/// during the decoder's lifetime. Not thread-safe.
class CachedDecoder {
 public:
  /// `model` and `backend` must outlive the decoder.
  CachedDecoder(const Transformer& model, Backend& backend,
                PackedWeights::Originals originals = PackedWeights::Originals::kept);

  /// Starts a batch. Encodes the sources (subword ids without </s>) and reserves caches for `max_rows` hypotheses of at
  /// most `max_length` tokens each.
  void start(std::span<const std::span<const std::int32_t>> sources, std::int64_t max_rows, std::int64_t max_length);

  /// One hypothesis in a step.
  struct Row {
    std::int32_t token = 0;     // its last token
    std::int32_t sentence = 0;  // index of its source in `sources`
    std::int32_t parent = 0;    // its row in the previous step; unused in the first step
  };
  /// Appends one token to each row and computes the `count` most probable next tokens (the whole vocabulary if
  /// smaller).
  void step(std::span<const Row> rows, int count);
  /// The next tokens of a row of the last step. Valid until the next step.
  NextTokens next(std::int32_t row) const;

  /// See Context::matmul_input.
  using MatmulInput = std::function<void(const Parameter& weight, ConstTensor x)>;
  void observe_inputs(MatmulInput observer) { matmul_input_ = std::move(observer); }

  /// Bytes of the packed weights.
  std::size_t packed_bytes() const { return packed_.bytes(); }

 private:
  Context context();
  void follow_parents(std::span<const Row> rows);
  std::vector<DecoderLayer::StepInput> step_inputs(std::span<const Row> rows);
  void fetch_best(ConstTensor logits, int count);

  const Transformer& model_;
  Backend& backend_;
  PackedWeights packed_;
  Arena batch_, saved_, scratch_;  // batch_ is reset by start() only
  MatmulInput matmul_input_;
  std::vector<std::int32_t> source_offsets_;
  std::vector<Tensor> encoder_keys_values_;  // per layer: projected encoder output, [source tokens, 2 width]
  std::vector<Tensor> caches_;               // per layer: cached keys and values, [max rows, capacity * 2 width]
  // Cache rows of the prefix of each row of the last step, [rows, position_].
  std::vector<std::int32_t> self_rows_;
  // For each row of attention: number of own tokens, first source token, number of source tokens.
  std::vector<std::int32_t> self_count_, memory_begin_, memory_count_;
  std::int64_t capacity_ = 0, position_ = 0;
  std::vector<float> next_scores_;  // [rows, next_count_]
  std::vector<std::int32_t> next_ids_;
  std::size_t next_count_ = 0;
};

/// Batched beam search. Each step feeds one row per live hypothesis of every unfinished sentence, so the batch shrinks
/// as hypotheses and sentences finish. In f32 the result for a sentence does not depend on the other sentences in the
/// batch, except where rounding decides between nearly equal scores. Deterministic. Not thread-safe.
class BeamSearch {
 public:
  /// `model` and `backend` must outlive the search. The model's weights must not change, because matmuls read packed
  /// copies; if `originals` are released, the model is of no use to anybody else.
  BeamSearch(const Transformer& model, Backend& backend,
             PackedWeights::Originals originals = PackedWeights::Originals::kept)
      : decoder_(model, backend, originals) {}

  /// Translates `sources` (subword ids without </s>). Returns the n best hypotheses of each source, best first, at
  /// least one. An empty source is translated like any other. Throws UsageFailure if an option is out of range.
  std::vector<std::vector<Hypothesis>> search(std::span<const std::span<const std::int32_t>> sources,
                                              const BeamOptions& options);

  /// Calls `observer` with the input of each matmul from now on, in the backend's memory; no longer if it is empty.
  void observe_inputs(CachedDecoder::MatmulInput observer) { decoder_.observe_inputs(std::move(observer)); }

  /// Bytes of the packed weights.
  std::size_t packed_bytes() const { return decoder_.packed_bytes(); }

 private:
  void step(std::vector<SentenceBeam>& beams, const BeamOptions& options);

  CachedDecoder decoder_;
};

}  // namespace babelring
