#include "nmt/metrics/chrf.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/failure.h"
#include "base/version.h"
#include "nmt/metrics/ngrams.h"
#include "nmt/metrics/tokenizer.h"

namespace babelring {

namespace {

bool is_ascii_punctuation(char32_t c) {
  return (c >= U'!' && c <= U'/') || (c >= U':' && c <= U'@') || (c >= U'[' && c <= U'`') || (c >= U'{' && c <= U'~');
}

/// Splits one ASCII punctuation mark off each word: at the end, otherwise at the start.
std::vector<std::u32string> words_and_marks(const std::vector<std::u32string>& words) {
  std::vector<std::u32string> out;
  for (const std::u32string& word : words) {
    if (word.size() > 1 && is_ascii_punctuation(word.back())) {
      out.push_back(word.substr(0, word.size() - 1));
      out.push_back(word.substr(word.size() - 1));
    } else if (word.size() > 1 && is_ascii_punctuation(word.front())) {
      out.push_back(word.substr(0, 1));
      out.push_back(word.substr(1));
    } else {
      out.push_back(word);
    }
  }
  return out;
}

/// A line as character sequence and word sequence.
struct Line {
  std::u32string characters;
  std::u32string words;  // word numbers
};

Line prepare(std::string_view text, const ChrfOptions& options, WordNumbers& numbers) {
  std::u32string points = to_utf32(options.lowercase ? to_lower(text) : text);
  const std::vector<std::u32string> words = split_words(points);
  Line line;
  if (options.whitespace) {
    while (!points.empty() && is_space(points.back())) points.pop_back();  // sacreBLEU strips the lines of its files
    line.characters = std::move(points);
  } else {
    for (const std::u32string& word : words) line.characters += word;
  }
  if (options.word_order > 0) line.words = numbers(words_and_marks(words));
  return line;
}

void add_orders(ChrfCounts& counts, std::u32string_view hypothesis, std::u32string_view reference, int orders) {
  const auto ngrams_in = [](std::u32string_view sequence, std::size_t n) {
    return sequence.size() < n ? 0 : static_cast<std::int64_t>(sequence.size() - n + 1);
  };
  for (std::size_t n = 1; n <= static_cast<std::size_t>(orders); ++n) {
    const std::int64_t in_reference = ngrams_in(reference, n);
    // Like sacreBLEU: an order without n-grams in the reference does not count those of the hypothesis either.
    counts.orders.push_back({in_reference == 0 ? 0 : ngrams_in(hypothesis, n), in_reference,
                             common_ngrams(count_ngrams(hypothesis, n), count_ngrams(reference, n))});
  }
}

}  // namespace

ChrfCounts& ChrfCounts::operator+=(const ChrfCounts& other) {
  orders.resize(std::max(orders.size(), other.orders.size()));
  for (std::size_t i = 0; i < other.orders.size(); ++i) {
    orders[i].hypothesis += other.orders[i].hypothesis;
    orders[i].reference += other.orders[i].reference;
    orders[i].matched += other.orders[i].matched;
  }
  return *this;
}

std::vector<double> ChrfCounts::row() const {
  std::vector<double> row;
  for (const Order& order : orders) {
    for (const std::int64_t count : {order.hypothesis, order.reference, order.matched}) {
      row.push_back(static_cast<double>(count));
    }
  }
  return row;
}

namespace {

/// The n-grams of one order of a text: their numbers, ascending, and how often each occurs.
struct NumberedNgrams {
  struct Entry {
    std::size_t number;
    std::int64_t count;
  };
  std::vector<Entry> entries;
  std::int64_t total = 0;
};

std::int64_t common(const NumberedNgrams& a, const NumberedNgrams& b) {
  std::int64_t sum = 0;
  for (auto x = a.entries.begin(), y = b.entries.begin(); x != a.entries.end() && y != b.entries.end();) {
    if (x->number == y->number) sum += std::min(x->count, y->count);
    const bool next_x = x->number <= y->number, next_y = y->number <= x->number;
    x += next_x ? 1 : 0;
    y += next_y ? 1 : 0;
  }
  return sum;
}

/// The n-grams of each text, with equal numbers where they are equal.
std::vector<NumberedNgrams> numbered_ngrams(const std::vector<Line>& lines, std::size_t n) {
  std::unordered_map<std::u32string_view, std::size_t> numbers;
  std::vector<NumberedNgrams> all;
  for (const Line& line : lines) {
    NumberedNgrams& ngrams = all.emplace_back();
    for (const auto& [ngram, count] : count_ngrams(line.characters, n)) {
      ngrams.entries.push_back({numbers.try_emplace(ngram, numbers.size()).first->second, count});
      ngrams.total += count;
    }
    std::ranges::sort(ngrams.entries, {}, &NumberedNgrams::Entry::number);
  }
  return all;
}

}  // namespace

std::vector<double> Chrf::score_pairs(std::span<const std::string> texts) const {
  WordNumbers unused;
  std::vector<Line> lines;
  for (const std::string& text : texts) lines.push_back(prepare(text, options_, unused));
  const std::size_t count = texts.size(), width = 3 * static_cast<std::size_t>(options_.char_order);
  std::vector<double> rows(count * count * width);  // of each pair, as ChrfCounts::row()
  for (std::size_t order = 0; 3 * order < width; ++order) {
    const std::vector<NumberedNgrams> ngrams = numbered_ngrams(lines, order + 1);
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i; j < count; ++j) {
        const auto matched = static_cast<double>(common(ngrams[i], ngrams[j]));
        for (const auto& [hypothesis, reference] : {std::pair(i, j), std::pair(j, i)}) {
          const auto in_reference = static_cast<double>(ngrams[reference].total);
          double* row = &rows[(hypothesis * count + reference) * width + 3 * order];
          row[0] = in_reference == 0 ? 0 : static_cast<double>(ngrams[hypothesis].total);  // as in add_orders()
          row[1] = in_reference;
          row[2] = matched;
        }
      }
    }
  }
  std::vector<double> scores;
  for (std::size_t pair = 0; pair < count * count; ++pair) {
    scores.push_back(score(std::span<const double>(rows).subspan(pair * width, width)));
  }
  return scores;
}

ChrfCounts Chrf::count(std::string_view hypothesis, const std::vector<std::string>& references) const {
  WordNumbers numbers;
  const Line line = prepare(hypothesis, options_, numbers);
  ChrfCounts best;
  double best_score = -1;
  for (const std::string& text : references) {
    const Line reference = prepare(text, options_, numbers);
    ChrfCounts counts;
    add_orders(counts, line.characters, reference.characters, options_.char_order);
    add_orders(counts, line.words, reference.words, options_.word_order);
    const double with_this = score(counts);
    if (with_this > best_score) {
      best_score = with_this;
      best = std::move(counts);
    }
  }
  return best;
}

namespace {

template <class Real>
double f_score(std::span<const Real> statistics, const ChrfOptions& options) {
  constexpr Real epsilon = static_cast<Real>(1e-16);
  const Real factor = static_cast<Real>(options.beta) * static_cast<Real>(options.beta);
  Real precision = 0, recall = 0, sum = 0, orders = 0, effective_orders = 0;
  for (std::size_t i = 0; i < statistics.size(); i += 3) {
    const Real hypothesis = statistics[i], reference = statistics[i + 1], matched = statistics[i + 2];
    const Real p = hypothesis > 0 ? matched / hypothesis : epsilon;
    const Real r = reference > 0 ? matched / reference : epsilon;
    const Real divisor = factor * p + r;
    ++orders;
    sum += divisor > 0 ? (1 + factor) * p * r / divisor : epsilon;
    if (hypothesis == 0 || reference == 0) continue;
    precision += p;
    recall += r;
    ++effective_orders;
  }
  if (options.eps_smoothing) return 100 * sum / orders;
  if (precision + recall == 0) return 0;
  precision /= effective_orders;
  recall /= effective_orders;
  return 100 * ((1 + factor) * precision * recall / (factor * precision + recall));
}

}  // namespace

double Chrf::score(std::span<const double> row) const {
  return f_score(row, options_);
}

double Chrf::score(std::span<const float> row) const {
  return f_score(row, options_);
}

double Chrf::score(const ChrfCounts& counts) const {
  return score(std::span<const double>(counts.row()));
}

double Chrf::corpus(const std::vector<std::string>& hypotheses,
                    const std::vector<std::vector<std::string>>& references) const {
  if (references.empty()) fail("chrf: no references");
  for (const auto& set : references) {
    if (set.size() != hypotheses.size()) {
      fail("chrf: {} hypotheses, {} references; expected equal numbers", hypotheses.size(), set.size());
    }
  }
  ChrfCounts counts;
  std::vector<std::string> of_line(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t k = 0; k < references.size(); ++k) of_line[k] = references[k][i];
    counts += count(hypotheses[i], of_line);
  }
  return score(counts);
}

std::string Chrf::name() const {
  return fmt::format("chrF{}{}", options_.beta, std::string(static_cast<std::size_t>(options_.word_order), '+'));
}

std::string Chrf::text(double score) const {
  return fmt::format("{} = {:.2f}", name(), score);
}

std::string Chrf::signature(std::size_t references) const {
  return fmt::format("nrefs:{}|case:{}|eff:{}|nc:{}|nw:{}|space:{}|version:babelring-{}", references,
                     options_.lowercase ? "lc" : "mixed", options_.eps_smoothing ? "no" : "yes", options_.char_order,
                     options_.word_order, options_.whitespace ? "yes" : "no", version);
}

}  // namespace babelring
