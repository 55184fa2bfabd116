#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/metrics/tokenizer.h"

namespace babelring {

/// What stands in for an n-gram precision of zero. Chen and Cherry 2014: exp is their method 3, floor 1, add_k 2.
enum class Smoothing { exp, none, floor, add_k };

/// "exp", "none", "floor", "add-k"; the Error names them.
Result<Smoothing> smoothing_named(std::string_view name);

struct BleuOptions {
  Tokenizer tokenizer = Tokenizer::thirteen_a;
  bool lowercase = false;
  Smoothing smoothing = Smoothing::exp;
  double smoothing_value = -1;   // of floor (negative: 0.1) and add_k (negative: 1)
  bool effective_order = false;  // only orders that the hypothesis is long enough for: for single sentences
};

/// Counts that add up over sentences, and over ranks.
struct BleuCounts {
  static constexpr std::size_t orders = 4;
  std::array<std::int64_t, orders> correct{}, total{};  // n-grams matched and present, n = 1 … 4
  std::int64_t hypothesis_length = 0, reference_length = 0;

  BleuCounts& operator+=(const BleuCounts& other);
};

struct BleuScore {
  double score = 0;                                     // 0 … 100
  std::array<double, BleuCounts::orders> precisions{};  // percent
  double brevity_penalty = 0;
  BleuCounts counts;

  /// "BLEU = 44.41 83.3/58.5/43.0/31.6 (BP = 0.875 ratio = 0.883 hyp_len = 699 ref_len = 792)".
  std::string text() const;
};

/// BLEU (Papineni et al. 2002), equal to sacreBLEU 2.6.0 (Post 2018) for the same options.
///
/// Older papers quote "tokenised lower-cased BLEU" of multi-bleu.perl: score text that went through their tokeniser
/// with `none` and lowercase. `13a` with lowercase on raw text gives nearly the same figure, but separates hyphens and
/// apostrophes differently, so the two must not be mixed.
class Bleu {
 public:
  explicit Bleu(const BleuOptions& options = {}) : options_(options) {}

  /// Counts of one sentence against one reference or several.
  BleuCounts count(std::string_view hypothesis, const std::vector<std::string>& references) const;
  /// The score of summed counts.
  BleuScore score(const BleuCounts& counts) const;
  /// The whole corpus; references[k] is the k-th set. Throws Failure if a set's number of lines differs.
  BleuScore corpus(const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references) const;

  /// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:babelring-0.1.0".
  std::string signature(std::size_t references = 1) const;

 private:
  double smoothing_value() const;
  BleuOptions options_;
};

}  // namespace babelring
