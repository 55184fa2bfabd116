#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nmt/decode/constraints.h"

namespace babelring {

/// Length penalty: the score of a hypothesis is its log-probability divided by this function of its length n, </s>
/// included.
enum class LengthFormula {
  power,   // n^a; as fairseq, Marian and transformers
  gnmt,    // ((5 + n) / 6)^a; source: Wu et al. 2016, eq. 14, without the coverage penalty
  pieces,  // m^a for m pieces without </s>; as CTranslate2, which writes no empty translation
};

/// Rules that change the log-probabilities of the next piece. Without any of them a search reads the best pieces only.
struct TokenRules {
  std::int64_t min_length = 0;  // pieces of a translation before </s>; at most its maximum length allows
  int no_repeat_ngram = 0;      // no sequence of n pieces occurs twice in a translation; 0: any may
  // The log-probability of a piece that occurred before is multiplied by this, at least 1. Source: Keskar et al. 2019,
  // section 4.1, applied after the softmax as the beam search of transformers does.
  double repetition_penalty = 1;
  std::vector<std::int32_t> suppressed = {};                         // ids that are never chosen
  std::vector<std::vector<std::int32_t>> suppressed_sequences = {};  // ids that never follow each other; none is empty

  bool active() const {
    return min_length > 0 || no_repeat_ngram > 0 || repetition_penalty != 1 || !suppressed.empty() ||
           !suppressed_sequences.empty();
  }
  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
  /// Changes the log-probabilities of the pieces that follow `ids`, one for each id of the vocabulary; minus infinity
  /// forbids a piece.
  void apply(std::span<const std::int32_t> ids, std::span<float> log_probabilities) const;
};

struct BeamOptions {
  int beam = 5;    // hypotheses per sentence; 1 is greedy search
  int n_best = 1;  // translations returned per sentence, at most `beam`
  LengthFormula length_formula = LengthFormula::power;
  double length_penalty = 1.0;         // the exponent a, at least 0; larger values favour longer translations
  double max_length_factor = 2.0;      // max tokens of a translation, </s> included:
  std::int64_t max_length_extra = 10;  // max_length_factor * source subwords + max_length_extra
  double unk_penalty = 0;              // subtracted from the log-probability of <unk>; 1000 effectively forbids it
  TokenRules rules;

  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
  /// The divisor for a hypothesis of `length` tokens, </s> included if it is complete.
  double penalty(std::int64_t length, bool complete = true) const;
  /// Max length of a translation, </s> included; at least 1.
  std::int64_t max_length(std::int64_t source_pieces) const;
};

/// A translation as subword ids, without </s>.
struct Hypothesis {
  std::vector<std::int32_t> ids;
  std::vector<float> token_scores;  // the log-probability of each id and, if complete, of </s>
  double log_probability = 0;       // natural logarithm; includes </s> and the <unk> penalty
  double score = 0;                 // log_probability / BeamOptions::penalty(length)
  bool complete = true;             // false if cut at the maximum length before </s>
};

/// The most probable next tokens of one hypothesis, in descending order.
struct NextTokens {
  std::span<const float> log_probabilities;
  std::span<const std::int32_t> ids;
};

/// Beam search for one sentence, without the model: selects the next hypotheses from the next-token probabilities of
/// the live ones. A beam of size B starts from <s> with B open slots. Each step keeps the best extensions over all live
/// hypotheses, one per open slot. An extension that ends in </s> is finished and keeps its slot; the others stay live.
/// Hypotheses still live at the maximum length are cut and rank after all complete ones. <s>, and </s> as first token,
/// are never chosen, nor is a token of probability 0; hypotheses without another next token are cut. Ties go to the
/// better parent, then to the smaller id, so the result is a pure function of the probabilities.
///
/// With phrases that a translation must hold, the slots are divided among banks of hypotheses that hold equally many
/// pieces of the phrases; a bank without candidates leaves its slots to the fullest ones. Source: dynamic beam
/// allocation, Post and Vilar 2018, section 3. Such a beam is wider: the phrases' alternatives come on top.
class SentenceBeam {
 public:
  struct Live {
    std::vector<std::int32_t> ids;
    std::vector<float> token_scores;  // log-probabilities of the ids
    double log_probability = 0;
    std::int32_t row = 0;  // its row in the decoder's last step; after advance(), its parent's row
    Constraints::Met met = {};
  };

  /// `options` and `constraints` must outlive the beam. Null: no constraints.
  SentenceBeam(const BeamOptions& options, std::int64_t source_pieces, const Constraints* constraints = nullptr);

  /// Number of next tokens per hypothesis that advance() needs for an exact result. Fewer are fine if the vocabulary is
  /// smaller.
  int next_tokens_needed() const { return width_ + 3; }

  /// Max number of hypotheses.
  int width() const { return width_; }
  const Constraints* constraints() const { return constraints_; }

  /// Advances by one step. `next[i]` belongs to live()[i] and holds next_tokens_needed() tokens, or the whole
  /// vocabulary, and each token that the constraints want.
  void advance(std::span<const NextTokens> next);

  /// True if no live hypothesis can still enter the n best. Log-probabilities only decrease, so a live hypothesis
  /// scores at most its log-probability over the penalty of the maximum length.
  bool done() const;

  /// Live hypotheses in descending order of log-probability.
  std::vector<Live>& live() { return live_; }
  const std::vector<Live>& live() const { return live_; }
  std::int64_t max_length() const { return max_length_; }

  /// Up to n_best hypotheses, best first: complete ones by score, then cut ones by pieces of phrases and score.
  std::vector<Hypothesis> n_best() const;

 private:
  struct Candidate {
    double log_probability;
    float step;  // its last token's
    std::size_t parent;
    std::int32_t id;
    Constraints::Met met;
  };
  std::vector<Candidate> best_candidates(std::span<const NextTokens> next) const;
  std::vector<Candidate> from_banks(std::vector<Candidate> ordered, std::size_t slots) const;
  bool allowed(std::int32_t id) const;
  Hypothesis scored(const Live& live, std::int64_t length, bool complete) const;

  const BeamOptions& options_;
  const Constraints* constraints_;
  int width_;
  std::int64_t max_length_;
  std::int64_t length_ = 0;  // length of every live hypothesis, in tokens
  bool stuck_ = false;       // no live hypothesis has a next token
  std::vector<Live> live_;
  std::vector<Hypothesis> finished_;  // best first
};

}  // namespace babelring
