#include "nmt/decode/glossary.h"

#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "nmt/data/text.h"

namespace babelring {
namespace {

/// The text in small letters, each at the place of its capital: letters whose cases differ in length stay.
std::string small_letters(std::string_view text) {
  std::string small;
  for (std::size_t place = 0, end = 0; place < text.size(); place = end) {
    const UChar32 lower = u_tolower(next_character(text, end));
    if (U8_LENGTH(lower) == static_cast<std::int32_t>(end - place)) {
      icu::UnicodeString(lower).toUTF8String(small);
    } else {
      small += text.substr(place, end - place);
    }
  }
  return small;
}

/// The characters before and at a place of a text; 0 beyond its ends.
std::pair<UChar32, UChar32> around(std::string_view text, std::size_t place) {
  std::size_t back = place > 0 ? place - 1 : 0;
  while (back > 0 && U8_IS_TRAIL(text[back])) --back;
  const UChar32 before = place > 0 ? next_character(text, back) : 0;
  return {before, place < text.size() ? next_character(text, place) : 0};
}

/// True if a word ends or begins at this place: it is not between two letters or digits, or in a script whose words no
/// spaces separate.
bool is_word_edge(std::string_view text, std::size_t place) {
  const auto [before, at] = around(text, place);
  const bool goes_on = is_spaced_letter(at) || (U_GET_GC_MASK(at) & U_GC_M_MASK) != 0;
  return !is_spaced_letter(before) || !goes_on;
}

/// The place of `words` in a text as whole words, from `first` on; npos if there is none.
std::size_t find_words(std::string_view text, std::string_view words, std::size_t first = 0) {
  for (std::size_t at = text.find(words, first); at != std::string_view::npos; at = text.find(words, at + 1)) {
    if (is_word_edge(text, at) && is_word_edge(text, at + words.size())) return at;
  }
  return std::string_view::npos;
}

/// The pieces of a term's translation within a line: without the space before it where its script has none.
std::vector<std::int32_t> pieces_within(const std::string& target, const Vocabulary& vocabulary,
                                        const PieceTexts& texts) {
  constexpr std::string_view space = "\u2581";
  std::vector<std::int32_t> ids = vocabulary.encode(target, TextSide::target);
  const UChar32 first = around(target, 0).second;
  const bool is_unspaced = u_isalpha(first) != 0 && !is_spaced_letter(first);
  if (ids.empty() || !is_unspaced || !texts.text(ids.front()).starts_with(space)) return ids;
  const std::string_view rest = texts.text(ids.front()).substr(space.size());
  if (rest.empty()) {
    ids.erase(ids.begin());
  } else if (const auto without = texts.find(rest)) {
    ids.front() = *without;
  }
  return ids;
}

}  // namespace

Glossary::Glossary(const std::vector<Term>& terms, const std::string& place, const Vocabulary& vocabulary,
                   const PieceTexts& texts) {
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    Entry entry{.term = terms[i], .source = comparable(terms[i].first)};
    const std::string name = fmt::format("{}: term {}: found '{:.100}', '{:.100}'", place, i + 1,
                                         printable(terms[i].first), printable(terms[i].second));
    if (entry.source.empty() || comparable(entry.term.second).empty())
      throw UsageFailure(name + ", expected text on both sides");
    entry.pieces = pieces_within(entry.term.second, vocabulary, texts);
    if (!texts.joined(entry.pieces)) {
      throw UsageFailure(name + ", whose translation has characters that the vocabulary lacks");
    }
    entry.any_case = small_letters(entry.source) == entry.source;
    const auto [same, is_new] = known.emplace(entry.source, i + 1);
    if (!is_new) throw UsageFailure(fmt::format("{}, but term {} is the same", name, same->second));
    entries_.push_back(std::move(entry));
  }
}

std::vector<std::size_t> Glossary::occurring(std::string_view text) const {
  std::string exact = comparable(text), small = small_letters(exact);
  std::vector<std::size_t> longest_first(entries_.size()), found;
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::ranges::stable_sort(longest_first, std::ranges::greater(),
                           [&](std::size_t i) { return entries_[i].source.size(); });
  for (const std::size_t i : longest_first) {
    const std::string& source = entries_[i].source;
    const std::string& searched = entries_[i].any_case ? small : exact;
    std::size_t at = find_words(searched, source);
    if (at == std::string::npos) continue;
    found.push_back(i);
    for (; at != std::string::npos; at = find_words(searched, source)) {
      exact.replace(at, source.size(), source.size(), '\0');  // no shorter term occurs there
      small.replace(at, source.size(), source.size(), '\0');
    }
  }
  std::ranges::sort(found);
  return found;
}

bool holds_words(std::string_view text, std::string_view words) {
  return find_words(comparable(text), comparable(words)) != std::string::npos;
}

}  // namespace babelring
