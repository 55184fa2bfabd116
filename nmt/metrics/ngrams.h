#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace babelring {

/// How often each n-gram occurs. The keys view the sequence they were counted in.
using NgramCounts = std::unordered_map<std::u32string_view, std::int64_t>;

/// n-grams of a sequence of code points, or of word numbers.
inline NgramCounts count_ngrams(std::u32string_view sequence, std::size_t n) {
  NgramCounts counts;
  for (std::size_t i = 0; i + n <= sequence.size(); ++i) ++counts[sequence.substr(i, n)];
  return counts;
}

/// Occurrences in `a` that have a partner in `b`: the sum of the smaller counts.
inline std::int64_t common_ngrams(const NgramCounts& a, const NgramCounts& b) {
  std::int64_t common = 0;
  for (const auto& [ngram, count] : a) {
    const auto found = b.find(ngram);
    if (found != b.end()) common += count < found->second ? count : found->second;
  }
  return common;
}

/// Numbers words, equal words alike, so that n-grams of words are n-grams of char32_t.
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
