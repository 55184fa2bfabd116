#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace babelring {

struct ChrfOptions {
  int char_order = 6;  // max character n-gram order
  int word_order = 0;  // max word n-gram order: 0 is chrF, 2 is chrF++
  int beta = 2;        // weight of recall against precision
  bool lowercase = false;
  bool whitespace = false;     // character n-grams include white space
  bool eps_smoothing = false;  // as chrF++.py, NLTK and Moses: the mean of the F-scores of all orders
};

/// N-gram statistics. They can be summed over sentences and ranks. One entry per order, characters first, then words.
struct ChrfCounts {
  struct Order {
    std::int64_t hypothesis = 0, reference = 0, matched = 0;  // n-grams
  };
  std::vector<Order> orders;

  ChrfCounts& operator+=(const ChrfCounts& other);
  /// Hypothesis, reference and matched of each order.
  std::vector<double> row() const;
};

/// chrF (Popović 2015) and chrF++ (Popović 2017). Scores equal sacreBLEU 2.6.0 with the same options. By default
/// character n-grams exclude white space, and orders without n-grams do not count.
class Chrf {
 public:
  explicit Chrf(const ChrfOptions& options = {}) : options_(options) {}

  /// Statistics of one sentence against its best reference.
  ChrfCounts count(std::string_view hypothesis, const std::vector<std::string>& references) const;
  /// The score of each text against each as its reference, [hypothesis, reference]: those of count(), in a fraction of
  /// the time, because the n-grams of a text are counted once. With word_order 0.
  std::vector<double> score_pairs(std::span<const std::string> texts) const;
  /// Score from 0 to 100.
  double score(const ChrfCounts& counts) const;
  /// Score of such a row. Of single-precision numbers it is computed in their precision.
  double score(std::span<const double> row) const;
  double score(std::span<const float> row) const;
  /// Scores a corpus; references[k] is the k-th reference set. Throws Failure if a set has a different number of lines.
  double corpus(const std::vector<std::string>& hypotheses,
                const std::vector<std::vector<std::string>>& references) const;

  /// "chrF2", "chrF2++" (word order 2), "chrF2+" (word order 1).
  std::string name() const;
  /// "chrF2 = 51.23".
  std::string text(double score) const;
  /// "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:babelring-0.1.0".
  std::string signature(std::size_t references = 1) const;

 private:
  ChrfOptions options_;
};

}  // namespace babelring
