#include "nmt/metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/failure.h"
#include "base/result.h"
#include "base/version.h"
#include "nmt/metrics/ngrams.h"
#include "nmt/metrics/tokenizer.h"

namespace babelring {

namespace {

constexpr double log_of_zero = -9999999999.0;  // same value as sacreBLEU; exp() of it is 0 without using infinity

std::string_view name_of(Smoothing smoothing) {
  switch (smoothing) {
    case Smoothing::exp:
      return "exp";
    case Smoothing::none:
      return "none";
    case Smoothing::floor:
      return "floor";
    case Smoothing::add_k:
      break;
  }
  return "add-k";
}

/// For each n-gram, its max count over all references.
NgramCounts largest_counts(const std::vector<std::u32string>& references, std::size_t n) {
  NgramCounts largest;
  for (const std::u32string& reference : references) {
    for (const auto& [ngram, count] : count_ngrams(reference, n)) {
      std::int64_t& max_count = largest[ngram];
      max_count = std::max(max_count, count);
    }
  }
  return largest;
}

/// Length of the reference nearest in length; ties go to the shorter one.
std::int64_t nearest_length(const std::vector<std::u32string>& references, std::int64_t hypothesis) {
  std::int64_t nearest = -1;
  for (const std::u32string& reference : references) {
    const auto length = static_cast<std::int64_t>(reference.size());
    const std::int64_t distance = std::abs(length - hypothesis), best = std::abs(nearest - hypothesis);
    if (nearest < 0 || distance < best || (distance == best && length < nearest)) nearest = length;
  }
  return std::max<std::int64_t>(nearest, 0);
}

double brevity_penalty(const BleuCounts& counts) {
  if (counts.hypothesis_length >= counts.reference_length) return 1;
  if (counts.hypothesis_length == 0) return 0;
  return std::exp(1 - static_cast<double>(counts.reference_length) / static_cast<double>(counts.hypothesis_length));
}

}  // namespace

Result<Smoothing> parse_smoothing(std::string_view wanted) {
  for (const Smoothing smoothing : {Smoothing::exp, Smoothing::none, Smoothing::floor, Smoothing::add_k}) {
    if (name_of(smoothing) == wanted) return smoothing;
  }
  return Error{fmt::format("unknown smoothing '{}', expected exp, none, floor or add-k", wanted)};
}

std::string doubt_of_tokenizer(double bleu, double accuracy) {
  constexpr double prints_as_zero = 0.005, high_accuracy = 0.5;
  if (!(bleu < prints_as_zero && accuracy > high_accuracy)) return "";
  return fmt::format("BLEU {:.2f} with accuracy {:.0f} %: wrong tokenizer?", bleu, 100 * accuracy);
}

BleuCounts& BleuCounts::operator+=(const BleuCounts& other) {
  for (std::size_t n = 0; n < orders; ++n) {
    correct[n] += other.correct[n];
    total[n] += other.total[n];
  }
  hypothesis_length += other.hypothesis_length;
  reference_length += other.reference_length;
  return *this;
}

std::string BleuScore::text() const {
  const double ratio = counts.reference_length == 0 ? 0
                                                    : static_cast<double>(counts.hypothesis_length) /
                                                          static_cast<double>(counts.reference_length);
  return fmt::format("BLEU = {:.2f} {:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                     score, precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio,
                     counts.hypothesis_length, counts.reference_length);
}

double Bleu::smoothing_value() const {
  if (options_.smoothing_value >= 0) return options_.smoothing_value;
  return options_.smoothing == Smoothing::floor ? 0.1 : 1;
}

BleuCounts Bleu::count(std::string_view hypothesis, const std::vector<std::string>& references) const {
  WordNumbers numbers;
  const auto prepare = [&](std::string_view line) {
    return numbers(options_.lowercase ? tokenize(options_.tokenizer, to_lower(line))
                                      : tokenize(options_.tokenizer, line));
  };
  const std::u32string words = prepare(hypothesis);
  std::vector<std::u32string> reference_words;
  for (const std::string& reference : references) reference_words.push_back(prepare(reference));
  BleuCounts counts;
  counts.hypothesis_length = static_cast<std::int64_t>(words.size());
  counts.reference_length = nearest_length(reference_words, counts.hypothesis_length);
  for (std::size_t n = 1; n <= BleuCounts::orders; ++n) {
    counts.total[n - 1] = std::max<std::int64_t>(0, counts.hypothesis_length - static_cast<std::int64_t>(n) + 1);
    counts.correct[n - 1] = common_ngrams(count_ngrams(words, n), largest_counts(reference_words, n));
  }
  return counts;
}

BleuScore Bleu::score(const BleuCounts& counts) const {
  BleuScore result;
  result.counts = counts;
  result.brevity_penalty = brevity_penalty(counts);
  if (std::all_of(counts.correct.begin(), counts.correct.end(), [](std::int64_t c) { return c == 0; })) return result;
  std::size_t order = BleuCounts::orders;
  double halving = 1;
  for (std::size_t n = 0; n < BleuCounts::orders; ++n) {
    const double added = options_.smoothing == Smoothing::add_k && n > 0 ? smoothing_value() : 0;
    const double correct = static_cast<double>(counts.correct[n]) + added;
    const double total = static_cast<double>(counts.total[n]) + added;
    if (total == 0) break;
    if (options_.effective_order) order = n + 1;
    if (correct > 0) {
      result.precisions[n] = 100 * correct / total;
    } else if (options_.smoothing == Smoothing::exp) {
      halving *= 2;
      result.precisions[n] = 100 / (halving * total);
    } else if (options_.smoothing == Smoothing::floor) {
      result.precisions[n] = 100 * smoothing_value() / total;
    }
  }
  double sum = 0;
  for (std::size_t n = 0; n < order; ++n) {
    sum += result.precisions[n] == 0 ? log_of_zero : std::log(result.precisions[n]);
  }
  result.score = result.brevity_penalty * std::exp(sum / static_cast<double>(order));
  return result;
}

BleuScore Bleu::corpus(const std::vector<std::string>& hypotheses,
                       const std::vector<std::vector<std::string>>& references) const {
  if (references.empty()) fail("bleu: no references");
  for (const auto& set : references) {
    if (set.size() != hypotheses.size()) {
      fail("bleu: {} hypotheses, {} references; expected equal numbers", hypotheses.size(), set.size());
    }
  }
  BleuCounts counts;
  std::vector<std::string> of_line(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t k = 0; k < references.size(); ++k) of_line[k] = references[k][i];
    counts += count(hypotheses[i], of_line);
  }
  return score(counts);
}

std::string Bleu::signature(std::size_t references) const {
  const bool valued = options_.smoothing == Smoothing::floor || options_.smoothing == Smoothing::add_k;
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}{}|version:babelring-{}", references,
                     options_.lowercase ? "lc" : "mixed", options_.effective_order ? "yes" : "no",
                     babelring::name_of(options_.tokenizer), name_of(options_.smoothing),
                     valued ? fmt::format("[{:.2f}]", smoothing_value()) : "", version);
}

}  // namespace babelring
