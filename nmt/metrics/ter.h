#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/metrics/tokenizer.h"

namespace babelring {

/// Statistics of a sentence, which can be summed.
struct TerCounts {
  std::int64_t edits = 0;      // to the reference that needs the fewest
  double reference_words = 0;  // mean over the references
};

/// Translation edit rate (Snover et al. 2006): insertions, deletions, substitutions and shifts of word sequences that
/// turn the hypothesis into the reference, in percent of the reference's words. Scores equal sacreBLEU 2.6.0, whose
/// limits are kept: a beam of 25 words around the diagonal, shifts of at most 10 words over at most 50, and at most
/// 1,000 shifts tried for a sentence.
class Ter {
 public:
  explicit Ter(const TerOptions& options = {}) : options_(options) {}

  /// Statistics of one sentence. An empty reference costs an edit for each word of the hypothesis.
  TerCounts count(std::string_view hypothesis, const std::vector<std::string>& references) const;
  /// Percent, 0 for a text equal to its reference; may exceed 100. 100 if only the references are empty.
  template <class Real>
  static Real score(Real edits, Real reference_words) {
    if (reference_words > 0) return 100 * (edits / reference_words);
    return edits > 0 ? 100 : 0;
  }

  /// "nrefs:1|case:lc|tok:tercom|norm:no|punct:yes|asian:no|version:babelring-0.1.0".
  std::string signature(std::size_t references = 1) const;

 private:
  TerOptions options_;
};

/// The edits that turn `hypothesis` into `reference`, both as numbers of words.
std::int64_t translation_edits(std::u32string_view hypothesis, std::u32string_view reference);

}  // namespace babelring
