#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nmt/decode/constraints.h"

namespace babelring {

/// A term, and its translation as it shall stand in the text.
using Term = std::pair<std::string, std::string>;

/// Terms with fixed translations, for lines that hold them. A term occurs where its words stand in a line as whole
/// words; in any case if it has no capital letter, otherwise as it is written. Of terms that overlap in a line, the
/// longest occurs.
class Glossary {
 public:
  /// Throws UsageFailure that begins with `place`, names the term and says what is wrong: an empty side, a term that
  /// occurs twice, a character that the vocabulary lacks.
  Glossary(const std::vector<Term>& terms, const std::string& place, const Vocabulary& vocabulary,
           const PieceTexts& texts);

  /// The terms that occur in a text, each once, in the order of the glossary, as numbers from 0.
  std::vector<std::size_t> occurring(std::string_view text) const;
  const Term& term(std::size_t number) const { return entries_[number].term; }
  /// The pieces of the term's translation.
  const std::vector<std::int32_t>& pieces(std::size_t number) const { return entries_[number].pieces; }
  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Term term;
    std::string source;  // in the form in which texts are compared
    bool any_case = true;
    std::vector<std::int32_t> pieces;
  };
  std::vector<Entry> entries_;
};

/// True if a text holds these words as whole words, in the form in which texts are compared.
bool holds_words(std::string_view text, std::string_view words);

}  // namespace babelring
