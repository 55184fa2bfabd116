#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nmt/data/vocabulary.h"
#include "nmt/decode/beam_search.h"

namespace babelring {

struct TranslateOptions {
  BeamOptions beam;
  // One search takes at most so many source tokens (</s> included) and sentences; they bound memory, and in f32 do not
  // change what is found.
  std::int64_t batch_tokens = 2048;
  std::int64_t batch_sentences = 64;
  std::int64_t max_source_pieces = 256;  // longer lines are split (split_source.h), their parts translated apart

  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
};

/// One way to translate a line. Of a line that was split: its parts' joined, with the mean of their scores and the sum
/// of their log-probabilities.
struct Rendering {
  std::string text;            // one line
  double score = 0;            // log-probability over the length penalty; larger is better, at most 0
  double log_probability = 0;  // natural
  bool complete = true;        // false: cut at the maximum length
};

struct Translation {
  std::vector<Rendering> n_best;  // best first; none for a line without pieces
  std::int64_t source_pieces = 0;
  std::int64_t parts = 1;            // that the source was split into; 0 for a line without pieces
  bool cut_inside_sentence = false;  // a part ends where no sentence does: worth a warning

  /// The best one's; empty for a line without pieces.
  std::string text() const { return n_best.empty() ? std::string() : n_best.front().text; }
};

/// Translates lines of text: sorted by length, longest first, in batches, and given back in order. Not thread-safe.
class Translator {
 public:
  /// All must outlive the translator. After training on, a model needs a new translator: this one's products read
  /// packed copies of the weights.
  Translator(const Transformer& model, const Vocabulary& vocabulary, Backend& backend);

  /// One translation a line.
  std::vector<Translation> translate(const std::vector<std::string>& lines, const TranslateOptions& options);

  /// The same for sources that are ids already (without </s>), such as a prepared validation set.
  std::vector<Translation> translate_ids(std::span<const std::span<const std::int32_t>> sources,
                                         const TranslateOptions& options);

 private:
  std::vector<Rendering> rendered(const std::vector<Hypothesis>& hypotheses) const;

  const Vocabulary& vocabulary_;
  BeamSearch search_;
};

}  // namespace babelring
