#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/decode/sentence_beam.h"
#include "nmt/model/transformer.h"

namespace babelring {

/// The model's side of beam search: encodes a batch of sentences once, then takes hypotheses forward one token a step,
/// caching the keys and values of all positions so far. These are never copied: a hypothesis that extends another one
/// only records where its past is. Memory is kept between batches, and so are the packed copies of the weights: the
/// model must not change while the decoder lives. Not thread-safe.
class CachedDecoder {
 public:
  /// Both must outlive the decoder.
  CachedDecoder(const Transformer& model, Backend& backend);

  /// Begins a batch: encodes the sources (pieces, without </s>) and reserves caches for `max_rows` hypotheses of at
  /// most `max_length` tokens each.
  void start(std::span<const std::span<const std::int32_t>> sources, std::int64_t max_rows, std::int64_t max_length);

  /// What a hypothesis adds in a step.
  struct Row {
    std::int32_t token = 0;     // its newest token
    std::int32_t sentence = 0;  // its source, an index into `sources`
    std::int32_t parent = 0;    // the row of the last step that it goes on from; unused in the first step
  };
  /// Appends one token to each row and finds the `count` most probable next ones (or the vocabulary, if smaller).
  void step(std::span<const Row> rows, int count);
  /// Of a row of the last step; valid until the next.
  NextTokens next(std::int32_t row) const;

  /// Memory that packed weights take.
  std::size_t packed_bytes() const { return packed_.bytes(); }

 private:
  Context context();
  void follow_parents(std::span<const Row> rows);
  std::vector<DecoderLayer::StepInput> step_inputs(std::span<const Row> rows);
  void download_best(ConstTensor logits, int count);

  const Transformer& model_;
  Backend& backend_;
  PackedWeights packed_;
  Arena batch_, saved_, scratch_;  // batch_ lives from start() to start()
  std::vector<std::int32_t> source_offsets_;
  std::vector<Tensor> memories_;  // of each layer, [source tokens, 2 width]
  std::vector<Tensor> caches_;    // of each layer, [max rows, capacity * 2 width]
  // Where the tokens of each row of the last step are in the caches, [rows, position_].
  std::vector<std::int32_t> self_rows_;
  // What attention reads in a step, row by row: how many of its own tokens, which source tokens and how many.
  std::vector<std::int32_t> self_count_, memory_begin_, memory_count_;
  std::int64_t capacity_ = 0, position_ = 0;
  std::vector<float> next_scores_;  // [rows, next_count_]
  std::vector<std::int32_t> next_ids_;
  std::size_t next_count_ = 0;
};

}  // namespace babelring
