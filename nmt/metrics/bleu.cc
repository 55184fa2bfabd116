#include "nmt/metrics/bleu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

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

std::vector<double> BleuCounts::row() const {
  std::vector<double> row = {static_cast<double>(hypothesis_length), static_cast<double>(reference_length)};
  for (const std::int64_t count : correct) row.push_back(static_cast<double>(count));
  for (const std::int64_t count : total) row.push_back(static_cast<double>(count));
  return row;
}

BleuCounts BleuCounts::of_row(std::span<const double> row) {
  BleuCounts counts;
  counts.hypothesis_length = static_cast<std::int64_t>(row[0]);
  counts.reference_length = static_cast<std::int64_t>(row[1]);
  for (std::size_t n = 0; n < orders; ++n) {
    counts.correct[n] = static_cast<std::int64_t>(row[2 + n]);
    counts.total[n] = static_cast<std::int64_t>(row[2 + orders + n]);
  }
  return counts;
}

std::string BleuScore::details() const {
  const double ratio = counts.reference_length == 0 ? 0
                                                    : static_cast<double>(counts.hypothesis_length) /
                                                          static_cast<double>(counts.reference_length);
  return fmt::format("{:.1f}/{:.1f}/{:.1f}/{:.1f} (BP = {:.3f} ratio = {:.3f} hyp_len = {} ref_len = {})",
                     precisions[0], precisions[1], precisions[2], precisions[3], brevity_penalty, ratio,
                     counts.hypothesis_length, counts.reference_length);
}

std::string BleuScore::text() const {
  return fmt::format("BLEU = {:.2f} {}", score, details());
}

Bleu::Bleu(BleuOptions options) : options_(std::move(options)) {
  const bool needs_mecab = options_.tokenizer == Tokenizer::japanese || options_.tokenizer == Tokenizer::korean;
  if (!needs_mecab || options_.segmenter) return;
  Result<std::shared_ptr<const Segmenter>> segmenter = open_mecab(options_.tokenizer);
  if (!segmenter) throw UsageFailure(segmenter.error());
  options_.segmenter = std::move(segmenter).value();
}

double Bleu::smoothing_value() const {
  if (options_.smoothing_value >= 0) return options_.smoothing_value;
  return options_.smoothing == Smoothing::floor ? 0.1 : 1;
}

BleuCounts Bleu::count(std::string_view hypothesis, const std::vector<std::string>& references) const {
  WordNumbers numbers;
  const auto prepare = [&](std::string_view line) {
    const std::string text = options_.lowercase ? to_lower(line) : std::string(line);
    return numbers(options_.segmenter ? options_.segmenter->split(text) : tokenize(options_.tokenizer, text));
  };
  const std::u32string words = prepare(hypothesis);
  std::vector<std::u32string> reference_words;
  reference_words.reserve(references.size());
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

/// Sets precisions and score from the n-gram counts, n = 1 … 4, and the brevity penalty.
template <class Real>
void Bleu::add_precisions(const Real* correct_ngrams, const Real* total_ngrams, BleuScore& result) const {
  if (std::all_of(correct_ngrams, correct_ngrams + BleuCounts::orders, [](Real c) { return c == 0; })) return;
  std::size_t order = BleuCounts::orders;
  Real halving = 1;
  for (std::size_t n = 0; n < BleuCounts::orders; ++n) {
    const Real added = options_.smoothing == Smoothing::add_k && n > 0 ? static_cast<Real>(smoothing_value()) : 0;
    const Real correct = correct_ngrams[n] + added, total = total_ngrams[n] + added;
    if (total == 0) break;
    if (options_.effective_order) order = n + 1;
    if (correct > 0) {
      result.precisions[n] = 100 * correct / total;
    } else if (options_.smoothing == Smoothing::exp) {
      halving *= 2;
      result.precisions[n] = 100 / (halving * total);
    } else if (options_.smoothing == Smoothing::floor) {
      result.precisions[n] = static_cast<Real>(100 * smoothing_value()) / total;
    }
  }
  double sum = 0;
  for (std::size_t n = 0; n < order; ++n) {
    sum += result.precisions[n] == 0 ? log_of_zero : std::log(result.precisions[n]);
  }
  result.score = result.brevity_penalty * std::exp(sum / static_cast<double>(order));
}

BleuScore Bleu::score(const BleuCounts& counts) const {
  BleuScore result;
  result.counts = counts;
  result.brevity_penalty = brevity_penalty(counts);
  const std::vector<double> row = counts.row();
  add_precisions(row.data() + 2, row.data() + 2 + BleuCounts::orders, result);
  return result;
}

double Bleu::score(std::span<const float> row) const {
  BleuScore result;
  result.brevity_penalty = brevity_penalty(
      {.hypothesis_length = static_cast<std::int64_t>(row[0]), .reference_length = static_cast<std::int64_t>(row[1])});
  add_precisions(row.data() + 2, row.data() + 2 + BleuCounts::orders, result);
  return result.score;
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

std::string Bleu::tokenizer_name() const {
  return options_.segmenter ? options_.segmenter->signature() : std::string(babelring::name_of(options_.tokenizer));
}

std::string Bleu::signature(std::size_t references) const {
  const bool valued = options_.smoothing == Smoothing::floor || options_.smoothing == Smoothing::add_k;
  return fmt::format("nrefs:{}|case:{}|eff:{}|tok:{}|smooth:{}{}|version:babelring-{}", references,
                     options_.lowercase ? "lc" : "mixed", options_.effective_order ? "yes" : "no", tokenizer_name(),
                     name_of(options_.smoothing), valued ? fmt::format("[{:.2f}]", smoothing_value()) : "", version);
}

}  // namespace babelring
