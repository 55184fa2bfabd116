#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nmt/metrics/tokenizer.h"

namespace babelring {

/// Smoothing of n-gram precisions that are zero. Chen and Cherry 2014: exp is their method 3, floor 1, add_k 2.
enum class Smoothing { exp, none, floor, add_k };

/// Parses "exp", "none", "floor" or "add-k"; the Error lists these names.
Result<Smoothing> parse_smoothing(std::string_view name);

struct BleuOptions {
  Tokenizer tokenizer = Tokenizer::thirteen_a;  // not automatic
  std::shared_ptr<const Segmenter> segmenter;   // if set, used instead of `tokenizer`
  bool lowercase = false;
  Smoothing smoothing = Smoothing::exp;
  double smoothing_value = -1;   // parameter of floor and add_k; negative: their default, 0.1 and 1
  bool effective_order = false;  // use only n-gram orders present in the hypothesis; for sentence-level BLEU
};

/// N-gram statistics. They can be summed over sentences and ranks.
struct BleuCounts {
  static constexpr std::size_t orders = 4;
  std::array<std::int64_t, orders> correct{}, total{};  // n-grams matched and present, n = 1 … 4
  std::int64_t hypothesis_length = 0, reference_length = 0;

  BleuCounts& operator+=(const BleuCounts& other);
  /// The lengths of hypothesis and reference, then `correct`, then `total`; and back.
  std::vector<double> row() const;
  static BleuCounts of_row(std::span<const double> row);
};

struct BleuScore {
  double score = 0;                                     // 0 … 100
  std::array<double, BleuCounts::orders> precisions{};  // percent
  double brevity_penalty = 0;
  BleuCounts counts;

  /// "83.3/58.5/43.0/31.6 (BP = 0.875 ratio = 0.883 hyp_len = 699 ref_len = 792)".
  std::string details() const;
  /// "BLEU = 44.41 83.3/58.5/43.0/31.6 (BP = 0.875 ratio = 0.883 hyp_len = 699 ref_len = 792)".
  std::string text() const;
};

/// "BLEU 0.00 with accuracy 93 %: wrong tokenizer?": BLEU prints as 0 although the teacher-forced token accuracy, 0 to
/// 1, is above one half, where translations of separated words score several points. Otherwise "".
std::string doubt_of_tokenizer(double bleu, double accuracy);

/// BLEU (Papineni et al. 2002). Scores equal sacreBLEU 2.6.0 (Post 2018) with the same options.
///
/// To reproduce the "tokenised lower-cased BLEU" of multi-bleu.perl in older papers, tokenise the text with their
/// tokeniser and use `none` with lowercase. `13a` with lowercase on raw text gives a similar score, but tokenises
/// hyphens and apostrophes differently, so the two are not comparable.
class Bleu {
 public:
  /// Opens MeCab if the tokeniser needs it and no segmenter is given; throws UsageFailure if it is not installed.
  explicit Bleu(BleuOptions options = {});

  /// Statistics of one sentence against one or more references.
  BleuCounts count(std::string_view hypothesis, const std::vector<std::string>& references) const;
  /// Score of summed statistics.
  BleuScore score(const BleuCounts& counts) const;
  /// Score of a row of statistics, with precisions of single precision.
  double score(std::span<const float> row) const;
  /// Scores a corpus; references[k] is the k-th reference set. Throws Failure if a set has a different number of lines.
  BleuScore corpus(const std::vector<std::string>& hypotheses,
                   const std::vector<std::vector<std::string>>& references) const;

  /// "13a", "ja-mecab-0.996-IPA".
  std::string tokenizer_name() const;
  /// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:babelring-0.1.0".
  std::string signature(std::size_t references = 1) const;

 private:
  template <class Real>
  void add_precisions(const Real* correct, const Real* total, BleuScore& result) const;
  double smoothing_value() const;
  BleuOptions options_;
};

}  // namespace babelring
