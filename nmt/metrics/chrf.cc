#include "nmt/metrics/chrf.h"

#include <fmt/format.h>

#include <algorithm>

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
  std::u32string characters;  // without white space
  std::u32string words;       // word numbers
};

Line prepare(std::string_view text, const ChrfOptions& options, WordNumbers& numbers) {
  const std::vector<std::u32string> words = split_words(to_utf32(options.lowercase ? to_lower(text) : text));
  Line line;
  for (const std::u32string& word : words) line.characters += word;
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

double Chrf::score(const ChrfCounts& counts) const {
  double precision = 0, recall = 0;
  int effective_orders = 0;
  for (const ChrfCounts::Order& order : counts.orders) {
    if (order.hypothesis == 0 || order.reference == 0) continue;
    precision += static_cast<double>(order.matched) / static_cast<double>(order.hypothesis);
    recall += static_cast<double>(order.matched) / static_cast<double>(order.reference);
    ++effective_orders;
  }
  if (precision + recall == 0) return 0;
  precision /= effective_orders;
  recall /= effective_orders;
  const double factor = static_cast<double>(options_.beta) * options_.beta;
  return 100 * (1 + factor) * precision * recall / (factor * precision + recall);
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
  return fmt::format("nrefs:{}|case:{}|eff:yes|nc:{}|nw:{}|space:no|version:babelring-{}", references,
                     options_.lowercase ? "lc" : "mixed", options_.char_order, options_.word_order, version);
}

}  // namespace babelring
