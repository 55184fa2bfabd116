#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/decode/beam_options.h"

namespace babelring {

/// A translation as ids, without </s>.
struct Hypothesis {
  std::vector<std::int32_t> ids;
  double log_probability = 0;  // natural, </s> included, penalties on <unk> included
  double score = 0;            // log_probability / BeamOptions::penalty(length)
  bool complete = true;        // false: cut at the maximum length before </s>
};

/// The most probable next tokens of one hypothesis, in falling order.
struct NextTokens {
  std::span<const float> log_probabilities;
  std::span<const std::int32_t> ids;
};

/// Beam search of one sentence, the part without a model: given the next tokens of its live hypotheses it chooses the
/// next ones. A beam of B starts from <s> with B open places. Each step takes the best extensions of all live
/// hypotheses, as many as there are open places; those that end with </s> keep their place for good, the others live
/// on. Hypotheses still open at the maximum length are cut and rank behind all complete ones. Never chosen: <s>, and
/// </s> as the first token. Ties go to the better parent, then to the smaller id, so the result is a pure function of
/// the probabilities.
class SentenceBeam {
 public:
  struct Live {
    std::vector<std::int32_t> ids;
    double log_probability = 0;
    std::int32_t row = 0;  // the decoder's row of its last step; after advance() that of its parent
  };

  /// `options` must outlive the beam.
  SentenceBeam(const BeamOptions& options, std::int64_t source_pieces);

  /// As many next tokens as advance() needs of each hypothesis to be exact: fewer if the vocabulary is smaller.
  static int next_tokens_needed(const BeamOptions& options) { return options.beam + 3; }

  /// `next[i]` belongs to live()[i]; each has next_tokens_needed() tokens or the whole vocabulary.
  void advance(std::span<const NextTokens> next);

  /// True when no live hypothesis can still enter the n best: log-probabilities only fall, so the best a live one can
  /// reach is its own over the penalty of the maximum length.
  bool done() const;

  /// Best first, in falling order of log-probability.
  std::vector<Live>& live() { return live_; }
  const std::vector<Live>& live() const { return live_; }
  std::int64_t max_length() const { return max_length_; }

  /// At most n_best hypotheses, best first: complete ones by score, then cut ones by score.
  std::vector<Hypothesis> n_best() const;

 private:
  struct Candidate {
    double log_probability;
    std::size_t parent;
    std::int32_t id;
  };
  std::vector<Candidate> best_candidates(std::span<const NextTokens> next) const;
  bool allowed(std::int32_t id) const;
  Hypothesis finish(const Live& live, std::int64_t length, bool complete) const;

  const BeamOptions& options_;
  std::int64_t max_length_;
  std::int64_t length_ = 0;  // tokens of each live hypothesis
  std::vector<Live> live_;
  std::vector<Hypothesis> finished_;  // best first
};

}  // namespace babelring
