#pragma once

#include <cstdint>

namespace babelring {

/// What a hypothesis of log-probability s and length n (</s> included) is divided by to give its score.
enum class LengthFormula {
  power,  // n^a
  gnmt,   // ((5 + n) / 6)^a; source: Wu et al. 2016, eq. 14, without coverage
};

struct BeamOptions {
  int beam = 5;    // hypotheses of a sentence; 1 is greedy search
  int n_best = 1;  // translations wanted, at most `beam`
  LengthFormula length_formula = LengthFormula::power;
  double length_penalty = 1.0;         // a of the formula, at least 0; larger favours longer translations, 0 none
  double max_length_factor = 2.0;      // a translation, </s> included, has at most
  std::int64_t max_length_extra = 10;  // factor * source pieces + extra tokens
  double unk_penalty = 0;              // taken from the log-probability of <unk>; 1000 in effect forbids it

  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
  /// The divisor for a hypothesis of `length` tokens, </s> included.
  double penalty(std::int64_t length) const;
  /// At least 1, </s> included.
  std::int64_t max_length(std::int64_t source_pieces) const;
};

}  // namespace babelring
