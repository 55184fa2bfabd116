#pragma once

#include <cstdint>

namespace babelring {

/// Length penalty: the score of a hypothesis is its log-probability divided by this function of its length n (</s>
/// included).
enum class LengthFormula {
  power,  // n^a
  gnmt,   // ((5 + n) / 6)^a; source: Wu et al. 2016, eq. 14, without the coverage penalty
};

struct BeamOptions {
  int beam = 5;    // hypotheses per sentence; 1 is greedy search
  int n_best = 1;  // translations returned per sentence, at most `beam`
  LengthFormula length_formula = LengthFormula::power;
  double length_penalty = 1.0;         // the exponent a, at least 0; larger values favour longer translations
  double max_length_factor = 2.0;      // max tokens of a translation, </s> included:
  std::int64_t max_length_extra = 10;  // max_length_factor * source subwords + max_length_extra
  double unk_penalty = 0;              // subtracted from the log-probability of <unk>; 1000 effectively forbids it

  /// Throws UsageFailure naming the option, its value and its range.
  void check() const;
  /// The divisor for a hypothesis of `length` tokens, </s> included.
  double penalty(std::int64_t length) const;
  /// Max length of a translation, </s> included; at least 1.
  std::int64_t max_length(std::int64_t source_pieces) const;
};

}  // namespace babelring
