#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "nmt/data/update_source.h"

namespace babelring {

class Corpus;
class Random;
class Vocabulary;
enum class TextSide;

/// Draws segmentations of sentences: subword regularisation. A segmentation is a pure function of (options, seed,
/// epoch, sentence, side). The text is that of the pieces of the corpus, so that no text is kept: their concatenation
/// is what SentencePiece segments after it has normalised the text. Symbols, bytes, control pieces and <unk> stay as
/// they are. Thread-safe.
class SegmentSampler {
 public:
  /// Throws UsageFailure naming the option unless exactly one is given, for the vocabulary's kind of model. A sentence
  /// that would have `max_length` pieces or more on a side stays as it is there.
  SegmentSampler(const Vocabulary& vocabulary, const SegmentationOptions& options, std::uint64_t seed, int max_length);

  /// Sentences of a corpus in an epoch, in the given order; their alignments are those of the pieces that the new ones
  /// overlap. `epochs`: of each sentence instead, if it is not empty.
  Corpus draw(const Corpus& corpus, std::int64_t epoch, std::span<const std::int64_t> sentences,
              std::span<const std::int64_t> epochs = {}) const;

  /// Another segmentation of the text of `ids`.
  std::vector<std::int32_t> draw(std::span<const std::int32_t> ids, TextSide side, Random& random) const;

  /// Tokens with </s> per token of the corpus, on the average of up to 1,000 of its sentences that have at most
  /// max_length tokens on both sides.
  struct Growth {
    double source = 1, target = 1;
  };
  Growth growth(const Corpus& corpus) const;

 private:
  class ModelSampler;
  class BpeSampler;
  class UnigramSampler;
  std::vector<std::int32_t> draw_side(std::span<const std::int32_t> ids, TextSide side, std::int64_t epoch,
                                      std::int64_t sentence) const;
  std::vector<std::int32_t> new_links(const Corpus& corpus, std::int64_t sentence, std::span<const std::int32_t> source,
                                      std::span<const std::int32_t> target) const;

  SegmentationOptions options_;
  std::uint64_t seed_;
  std::size_t max_length_;
  std::shared_ptr<const ModelSampler> source_, target_;
};

}  // namespace babelring
