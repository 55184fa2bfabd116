#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace babelring {

/// Number of occurrences of each n-gram. The keys point into the counted sequence, which must outlive the counts.
using NgramCounts = std::unordered_map<std::u32string_view, std::int64_t>;

/// Counts the n-grams of a sequence of code points or word numbers.
inline NgramCounts count_ngrams(std::u32string_view sequence, std::size_t n) {
  NgramCounts counts;
  for (std::size_t i = 0; i + n <= sequence.size(); ++i) ++counts[sequence.substr(i, n)];
  return counts;
}

/// Number of matching n-grams: the sum over n-grams of the smaller count.
inline std::int64_t common_ngrams(const NgramCounts& a, const NgramCounts& b) {
  std::int64_t common = 0;
  for (const auto& [ngram, count] : a) {
    const auto found = b.find(ngram);
    if (found != b.end()) common += count < found->second ? count : found->second;
  }
  return common;
}

/// Maps each distinct word to a number, so that word n-grams are char32_t n-grams.
class WordNumbers {
 public:
  std::u32string operator()(const std::vector<std::u32string>& words) {
    std::u32string numbers;
    for (const std::u32string& word : words) {
      numbers.push_back(numbers_.try_emplace(word, static_cast<char32_t>(numbers_.size())).first->second);
    }
    return numbers;
  }

 private:
  std::unordered_map<std::u32string, char32_t> numbers_;
};

}  // namespace babelring
