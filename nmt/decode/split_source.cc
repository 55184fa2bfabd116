#include "nmt/decode/split_source.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace babelring {

namespace {

using Source = std::span<const std::int32_t>;

constexpr std::string_view space_mark = "\xe2\x96\x81";                          // ▁
constexpr std::array<std::string_view, 4> full_stops = {"。", "｡", "！", "？"};  // not followed by a space
constexpr std::array<std::string_view, 8> sentence_ends = {".", "!", "?", "…", "؟", "۔", "।", "॥"};
constexpr std::array<std::string_view, 12> closers = {"\"", "'", ")", "]", "”", "’", "»", "›", "“", "」", "』", "）"};
constexpr std::array<std::string_view, 8> openers = {"\"", "'", "(", "[", "“", "„", "«", "‘"};

/// Quality of a cut between two subwords, from worst to best.
enum class Cut { inside_word, between_words, doubtful_end, sentence_end };

template <std::size_t n>
std::string_view find_suffix(std::string_view text, const std::array<std::string_view, n>& marks) {
  const auto found =
      std::find_if(marks.begin(), marks.end(), [&](std::string_view mark) { return text.ends_with(mark); });
  return found == marks.end() ? std::string_view() : *found;
}

template <std::size_t n>
std::string_view strip_prefixes(std::string_view text, const std::array<std::string_view, n>& marks) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view mark : marks) {
      if (!text.starts_with(mark)) continue;
      text.remove_prefix(mark.size());
      again = true;
    }
  }
  return text;
}

bool is_ascii_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// True if a full stop after `word` rarely ends a sentence: "Dr", "z.B", "3", "J".
bool is_doubtful_before_full_stop(std::string_view word) {
  word = strip_prefixes(word, openers);
  if (word.empty()) return false;  // tokenised text
  if (word.find('.') != std::string_view::npos) return true;
  if (std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; })) return true;
  return word.size() <= 3 && std::all_of(word.begin(), word.end(), is_ascii_letter);
}

/// True if the vocabulary has the mark of a space at the end of the word before it (SentencePiece's
/// treat_whitespace_as_suffix) instead of at the start of the word after it.
bool marks_word_ends(const Vocabulary& vocabulary) {
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& piece = vocabulary.piece(id);
    if (piece.size() == space_mark.size()) continue;
    if (piece.starts_with(space_mark)) return false;
    if (piece.ends_with(space_mark)) return true;
  }
  return false;
}

class Cuts {
 public:
  Cuts(Source source, const Vocabulary& vocabulary)
      : source_(source), vocabulary_(vocabulary), marks_ends_(marks_word_ends(vocabulary)) {}

  /// Quality of a cut before subword `at`, with 0 < at < source size.
  Cut before(std::size_t at) const {
    const bool word_begins = begins_word(at);
    const std::string word = word_before(at);
    std::string_view text = word;
    for (auto closer = find_suffix(text, closers); !closer.empty(); closer = find_suffix(text, closers)) {
      text.remove_suffix(closer.size());
    }
    if (!find_suffix(text, full_stops).empty()) return Cut::sentence_end;
    if (!word_begins) return Cut::inside_word;
    const std::string_view end = find_suffix(text, sentence_ends);
    if (end.empty()) return Cut::between_words;
    if (begins_lowercase(at)) return Cut::doubtful_end;
    text.remove_suffix(end.size());
    return end == "." && is_doubtful_before_full_stop(text) ? Cut::doubtful_end : Cut::sentence_end;
  }

 private:
  /// True if a space lies before subword `at`.
  bool begins_word(std::size_t at) const {
    return marks_ends_ ? vocabulary_.piece(source_[at - 1]).ends_with(space_mark)
                       : vocabulary_.piece(source_[at]).starts_with(space_mark);
  }

  /// The text of the word that ends before subword `at`, without spaces. Reads at most 8 subwords; they are decoded, so
  /// that a character may be several subwords (byte fallback).
  std::string word_before(std::size_t at) const {
    constexpr std::size_t max_subwords = 8;
    std::size_t begin = at - 1;
    while (begin > 0 && at - begin < max_subwords && !begins_word(begin)) --begin;
    const std::string text = vocabulary_.decode(source_.subspan(begin, at - begin));
    const std::size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') + 1 - first);
  }

  bool begins_lowercase(std::size_t at) const {
    std::string_view word = vocabulary_.piece(source_[at]);
    if (word.starts_with(space_mark)) word.remove_prefix(space_mark.size());
    if (word.empty() && at + 1 < source_.size()) word = vocabulary_.piece(source_[at + 1]);
    return !word.empty() && word.front() >= 'a' && word.front() <= 'z';
  }

  Source source_;
  const Vocabulary& vocabulary_;
  bool marks_ends_;
};

/// Adds a sentence, split into parts if it exceeds `max_pieces`.
void add_sentence(Source sentence, const Vocabulary& vocabulary, std::size_t max_pieces, SplitSource& split) {
  while (sentence.size() > max_pieces) {
    const Cuts cuts(sentence, vocabulary);
    std::size_t best_at = max_pieces;
    Cut best = Cut::inside_word;
    for (std::size_t at = max_pieces; at > 0; --at) {
      const Cut cut = cuts.before(at);
      if (cut <= best) continue;
      best = cut;
      best_at = at;
    }
    split.inside_sentence |= best < Cut::doubtful_end;
    split.parts.push_back(sentence.first(best_at));
    sentence = sentence.subspan(best_at);
  }
  if (!sentence.empty()) split.parts.push_back(sentence);
}

/// True if the text ends in an ideographic or full-width character, so that no space follows.
bool ends_ideographic(std::string_view text) {
  if (text.size() < 3) return false;
  const std::string_view last = text.substr(text.size() - 3);
  return (last >= "\xe3\x80\x80" && last <= "\xe9\xbf\xbf") || (last >= "\xef\xbc\x80" && last <= "\xef\xbf\xaf");
}

}  // namespace

SplitSource split_source(Source source, const Vocabulary& vocabulary, std::int64_t max_pieces) {
  const auto limit = static_cast<std::size_t>(max_pieces);
  SplitSource split;
  if (source.size() <= limit) {
    if (!source.empty()) split.parts.push_back(source);
    return split;
  }
  const Cuts cuts(source, vocabulary);
  std::size_t begin = 0;
  for (std::size_t at = 1; at <= source.size(); ++at) {
    if (at < source.size() && cuts.before(at) != Cut::sentence_end) continue;
    add_sentence(source.subspan(begin, at - begin), vocabulary, limit, split);
    begin = at;
  }
  return split;
}

std::string join_parts(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    if (!line.empty() && !part.empty() && !ends_ideographic(line)) line += ' ';
    line += part;
  }
  return line;
}

}  // namespace babelring
