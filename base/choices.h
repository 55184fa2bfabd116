#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/failure.h"

namespace babelring {

/// The words for the values of an enum, in the order of help texts.
template <class Enum>
using Choices = std::vector<std::pair<std::string, Enum>>;

template <class Enum>
std::vector<std::string> words_of(const Choices<Enum>& choices) {
  std::vector<std::string> words;
  for (const auto& choice : choices) words.push_back(choice.first);
  return words;
}

/// The word for `value`. Throws Failure if it is not one of the choices.
template <class Enum>
std::string word_of(const Choices<Enum>& choices, Enum value) {
  for (const auto& [word, meaning] : choices) {
    if (meaning == value) return word;
  }
  fail("expected {}, found the value {}", fmt::join(words_of(choices), "|"), static_cast<int>(value));
}

/// The value for `word`. Throws Failure if it is not one of the choices.
template <class Enum>
Enum choice_of(const Choices<Enum>& choices, const std::string& word) {
  for (const auto& [known, meaning] : choices) {
    if (known == word) return meaning;
  }
  fail("expected {}, found '{}'", fmt::join(words_of(choices), "|"), word);
}

}  // namespace babelring
