#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/data/word_aligner.h"
#include "nmt/model/config.h"

namespace babelring {

/// Which attention of a decoder aligns a translation with its source, at the step that predicts a piece. Without a
/// chosen one it is the mean of the heads of alignment_layer().
struct AttentionChoice {
  int layer = -1;  // of the decoder, from 0
  int head = -1;   // from 0

  bool operator==(const AttentionChoice&) const = default;
  /// The layer of a decoder of `layers`.
  int layer_of(int layers) const { return layer >= 0 ? layer : alignment_layer(layers); }
  /// Throws UsageFailure naming the option unless the decoder has the layer and the head.
  void check(int layers, int heads) const;
};

/// The weights with which the pieces of a translation attend to those of the source. Where a source was translated in
/// parts, a part's pieces attend to that part.
struct Attention {
  struct Part {
    std::int64_t first_source = 0;   // piece of the source with which the part begins
    std::int64_t source_pieces = 0;  // without </s>
    std::vector<float> weights;      // [target pieces, source_pieces + 1]; rows sum to 1, the last column is </s>'s

    std::int64_t target_pieces() const { return std::ssize(weights) / (source_pieces + 1); }
    std::span<const float> row(std::int64_t target_piece) const {
      return std::span(weights).subspan(static_cast<std::size_t>(target_piece * (source_pieces + 1)),
                                        static_cast<std::size_t>(source_pieces + 1));
    }
  };
  std::vector<Part> parts;  // in the order of both texts

  /// Appends the attention of the text that follows.
  void append(const Attention& next);
};

/// The keys of a sentence's source tokens, of all heads.
struct AttentionKeys {
  std::span<const float> keys;  // [source tokens, stride], of which the first columns are read
  std::int64_t stride = 0;
};

/// softmax(query keys^T / sqrt(width / heads)) over the source tokens, of a target token's query [width] and a head; of
/// head -1 the mean over all.
std::vector<float> attention_weights(std::span<const float> query, const AttentionKeys& keys, int heads, int head);

/// Each target piece with the source piece that it attends to most, </s> left out. Sorted.
std::vector<AlignedPair> aligned_pieces(const Attention& attention);

/// The word of each piece: a word begins at the first piece and at each that begins with a space.
std::vector<std::int32_t> word_numbers(std::span<const std::int32_t> ids, const Vocabulary& vocabulary);

/// Each target word with the source word that its pieces attend to most, by the sum over the pieces of both. Sorted.
std::vector<AlignedPair> aligned_words(const Attention& attention, std::span<const std::int32_t> source_words,
                                       std::span<const std::int32_t> target_words);

/// "0-0 1-1 2-3", as Moses, fast_align and Marian have it.
std::string moses_form(std::span<const AlignedPair> pairs);

}  // namespace babelring
