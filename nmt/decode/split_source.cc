#include "nmt/decode/split_source.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "nmt/data/text.h"
#include "nmt/decode/constraints.h"

namespace babelring {

namespace {

using Source = std::span<const std::int32_t>;

constexpr std::string_view space_mark = "\xe2\x96\x81";  // ▁
// Not followed by a space in Chinese, Japanese, Khmer and Burmese.
constexpr std::array<std::string_view, 7> full_stops = {"。", "｡", "．", "！", "？", "។", "။"};
constexpr std::array<std::string_view, 10> sentence_ends = {".", "!", "?", "…", "؟", "۔", "।", "॥", "።", "։"};
constexpr std::array<std::string_view, 12> closers = {"\"", "'", ")", "]", "”", "’", "»", "›", "“", "」", "』", "）"};
constexpr std::array<std::string_view, 8> openers = {"\"", "'", "(", "[", "“", "„", "«", "‘"};
constexpr std::array<std::string_view, 3> dashes = {"- ", "– ", "— "};
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> brackets = {{{"(", ")"},
                                                                                    {"（", "）"},
                                                                                    {"「", "」"},
                                                                                    {"『", "』"},
                                                                                    {"„", "“"},
                                                                                    {"“", "”"},
                                                                                    {"«", "»"},
                                                                                    {"[", "]"},
                                                                                    {"\"", "\""}}};
/// Abbreviations with vowels, in small letters, that are not also words of English, German, French and Spanish;
/// those without vowels ("Dr", "bzw") need no list.
constexpr auto abbreviations = std::to_array<std::string_view>(
    {"abs",    "adm", "allg", "approx", "apr",   "assn", "aug",  "bros", "bzgl", "ca",    "capt", "col", "co",
     "corp",   "dec", "dept", "dez",    "dipl",  "eds",  "ehem", "etc",  "evtl", "exkl",  "feb",  "fig", "figs",
     "gen",    "geb", "ggf",  "gov",    "hon",   "inc",  "ing",  "inkl", "insb", "jahrh", "jan",  "lic", "maj",
     "messrs", "mio", "mlle", "mme",    "nos",   "nov",  "oct",  "okt",  "prof", "rep",   "rev",  "sen", "sept",
     "sog",    "sra", "srta", "tel",    "thurs", "tsd",  "tues", "univ", "usw",  "vol"});

/// Quality of a cut between two subwords, from worst to best. A likely end is inside quotes or before a small letter.
enum class Cut { inside_word, between_words, doubtful_end, likely_end, sentence_end };

template <std::size_t n>
std::string_view find_suffix(std::string_view text, const std::array<std::string_view, n>& marks) {
  const auto found =
      std::find_if(marks.begin(), marks.end(), [&](std::string_view mark) { return text.ends_with(mark); });
  return found == marks.end() ? std::string_view() : *found;
}

template <std::size_t n>
bool has_prefix(std::string_view text, const std::array<std::string_view, n>& marks) {
  return std::any_of(marks.begin(), marks.end(), [&](std::string_view mark) { return text.starts_with(mark); });
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

std::vector<UChar32> characters_of(std::string_view text) {
  std::vector<UChar32> characters;
  for (std::size_t place = 0; place < text.size();) characters.push_back(next_character(text, place));
  return characters;
}

bool is_vowel(UChar32 letter) {
  constexpr std::u32string_view vowels = U"aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüýœāăąēėęěīįōőūůűųıαάεέηήιίοόυύωώаеёиіїоуыэюя";
  return vowels.find(static_cast<char32_t>(u_tolower(letter))) != std::u32string_view::npos;
}

/// True if a full stop after `word` rarely ends a sentence: "Dr", "z.B", "3", "J".
bool is_doubtful_before_full_stop(std::string_view word) {
  constexpr std::size_t longest_without_vowel = 4, longest_ordinal = 3;  // "Hrsg", "100. Geburtstag" but not a year
  word = strip_prefixes(word, openers);
  if (word.empty()) return false;  // tokenised text
  if (word.find('.') != std::string_view::npos) return true;
  const std::vector<UChar32> letters = characters_of(word);
  if (std::all_of(letters.begin(), letters.end(), u_isdigit)) return letters.size() <= longest_ordinal;
  if (!std::all_of(letters.begin(), letters.end(), u_isalpha)) return false;
  if (letters.size() == 1) return u_islower(letters[0]) || u_isupper(letters[0]);
  if (word.find_first_not_of("IVXLC") == std::string_view::npos) return true;  // "III. Gipfel"
  if (u_isupper(letters[1])) return false;                                     // "TV"
  const bool has_cases = u_tolower(letters[0]) != u_toupper(letters[0]);       // Latin, Greek, Cyrillic
  if (has_cases && letters.size() <= longest_without_vowel && std::none_of(letters.begin(), letters.end(), is_vowel)) {
    return true;
  }
  std::string small(word);
  std::transform(small.begin(), small.end(), small.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return std::find(abbreviations.begin(), abbreviations.end(), small) != abbreviations.end();
}

/// Finds where a source can be cut, by the text of its subwords.
class Cuts {
 public:
  Cuts(Source source, const Vocabulary& vocabulary) {
    for (const std::int32_t id : source) {
      begins_.push_back(text_.size());
      std::string_view piece = vocabulary.piece(id);
      if (const auto byte = byte_of(piece)) {
        text_ += *byte;
        continue;
      }
      for (auto mark = piece.find(space_mark); mark != piece.npos; mark = piece.find(space_mark)) {
        text_ += piece.substr(0, mark);
        text_ += ' ';
        piece.remove_prefix(mark + space_mark.size());
      }
      text_ += piece;
    }
    mark_quoted();
  }

  /// Quality of a cut before subword `at`, with 0 < at < source size.
  Cut before(std::size_t at) const {
    const std::string_view text = text_;
    const std::string_view last = text.substr(begins_[at - 1], begins_[at] - begins_[at - 1]);
    if (last.find_first_not_of(' ') == last.npos) return Cut::inside_word;  // the cut belongs before the space
    const Cut cut = by_text(text.substr(0, begins_[at]), text.substr(begins_[at]));
    return cut == Cut::sentence_end && quoted_[begins_[at]] ? Cut::likely_end : cut;
  }

 private:
  static Cut by_text(std::string_view left, std::string_view right) {
    bool word_begins = false;
    for (; left.ends_with(' '); word_begins = true) left.remove_suffix(1);
    for (; right.starts_with(' '); word_begins = true) right.remove_prefix(1);
    const std::string_view word = left.substr(left.rfind(' ') + 1);
    std::string_view text = word;  // without closing quotes
    for (auto closer = find_suffix(text, closers); !closer.empty(); closer = find_suffix(text, closers)) {
      text.remove_suffix(closer.size());
    }
    if (!find_suffix(text, full_stops).empty()) {
      const bool ends_later = has_prefix(right, full_stops) || (!word_begins && has_prefix(right, closers));
      return ends_later ? Cut::inside_word : Cut::sentence_end;
    }
    if (!word_begins) return Cut::inside_word;
    const std::string_view end = find_suffix(text, sentence_ends);
    if (end.empty()) return Cut::between_words;
    if (has_prefix(right, sentence_ends)) return Cut::doubtful_end;
    const std::vector<UChar32> next =
        characters_of(strip_prefixes(strip_prefixes(right, dashes), openers).substr(0, 4));
    const bool closed = text.size() < word.size(), small = !next.empty() && u_islower(next[0]);
    if (closed && small) return Cut::doubtful_end;  // "Stop!" he said
    text.remove_suffix(end.size());
    const bool numbered = !next.empty() && u_isdigit(next[0]);  // "No. 5", "Abs. 3"
    if (end == "." && (numbered || is_doubtful_before_full_stop(text))) return Cut::doubtful_end;
    return small ? Cut::likely_end : Cut::sentence_end;
  }

  /// Sets quoted_ for the bytes between quotation marks or parentheses that open and close.
  void mark_quoted() {
    quoted_.assign(text_.size() + 1, false);
    std::vector<std::pair<std::string_view, std::size_t>> open;  // the mark that closes, and where the other one ends
    for (std::size_t at = 0; at < text_.size(); ++at) {
      const std::string_view rest = std::string_view(text_).substr(at);
      const auto closed =
          std::find_if(open.rbegin(), open.rend(), [&](const auto& each) { return rest.starts_with(each.first); });
      if (closed != open.rend()) {
        std::fill(quoted_.begin() + static_cast<std::ptrdiff_t>(closed->second),
                  quoted_.begin() + static_cast<std::ptrdiff_t>(at + 1), true);
        open.erase(std::prev(closed.base()), open.end());
        continue;
      }
      const auto opens = std::find_if(brackets.begin(), brackets.end(),
                                      [&](const auto& pair) { return rest.starts_with(pair.first); });
      if (opens != brackets.end()) open.emplace_back(opens->second, at + opens->first.size());
    }
  }

  std::string text_;                 // as decoded, with each space
  std::vector<std::size_t> begins_;  // of each subword in text_
  std::vector<bool> quoted_;         // [bytes of text_ + 1]
};

/// The parts of a source between cuts of at least this quality.
std::vector<Source> cut_at(Source source, const Vocabulary& vocabulary, Cut quality) {
  const Cuts cuts(source, vocabulary);
  std::vector<Source> parts;
  std::size_t begin = 0;
  for (std::size_t at = 1; at <= source.size(); ++at) {
    if (at < source.size() && cuts.before(at) < quality) continue;
    parts.push_back(source.subspan(begin, at - begin));
    begin = at;
  }
  return parts;
}

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

/// The smallest value that `percent` of 100 do not exceed.
std::int64_t percentile(std::vector<std::int64_t> values, std::size_t percent) {
  const std::size_t place = (percent * values.size() + 99) / 100 - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(place), values.end());
  return values[place];
}

}  // namespace

SplitSource split_source(Source source, const Vocabulary& vocabulary, std::int64_t max_pieces, const LineSize& whole) {
  SplitSource split;
  const bool fits = std::ssize(source) <= std::min(max_pieces, whole.pieces);
  const bool counted = whole.sentences < std::ssize(source);  // a source has no more sentences than subwords
  if (fits && !counted) {
    if (!source.empty()) split.parts.push_back(source);
    return split;
  }
  const std::vector<Source> sentences = cut_at(source, vocabulary, Cut::sentence_end);
  if (fits && std::ssize(sentences) <= whole.sentences) {
    if (!source.empty()) split.parts.push_back(source);
    return split;
  }
  for (const Source& sentence : sentences) {
    const bool longer = std::ssize(sentence) > std::min(max_pieces, whole.pieces);
    for (const Source& part : longer ? cut_at(sentence, vocabulary, Cut::likely_end) : std::vector{sentence}) {
      add_sentence(part, vocabulary, static_cast<std::size_t>(max_pieces), split);
    }
  }
  return split;
}

LineSize usual_line_size(const Corpus& corpus, const Vocabulary& vocabulary, std::int64_t max_length) {
  constexpr std::int64_t max_sample = 2000;  // 20 lines lie above the 99th percentile; takes 6 ms of a start
  std::vector<std::int64_t> pieces, sentences;
  const std::int64_t sample = std::min(max_sample, corpus.sentences());
  for (std::int64_t k = 0; k < sample; ++k) {
    const std::int64_t i = k * corpus.sentences() / sample;
    if (corpus.source_length(i) == 0 || corpus.source_length(i) >= max_length) continue;
    pieces.push_back(corpus.source_length(i));
    sentences.push_back(std::ssize(cut_at(corpus.source(i), vocabulary, Cut::sentence_end)));
  }
  if (pieces.empty()) return {};
  return {.pieces = percentile(std::move(pieces), 99), .sentences = percentile(std::move(sentences), 95)};
}

namespace {

/// The bytes at which the first character that is no white space begins and the last one ends; the text's length if
/// there is none.
std::pair<std::size_t, std::size_t> ends_of_words(std::string_view text) {
  std::pair<std::size_t, std::size_t> ends(text.size(), text.size());
  for (std::size_t place = 0, next = 0; place < text.size(); place = next) {
    if (u_isUWhiteSpace(next_character(text, next))) continue;
    ends = {std::min(ends.first, place), next};
  }
  return ends;
}

}  // namespace

std::string join_parts(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    if (!line.empty() && !part.empty() && !ends_ideographic(line)) line += ' ';
    line += part;
  }
  return line;
}

std::string join_with_spacing(std::string_view line, std::span<const std::string_view> sources,
                              const std::vector<std::string>& texts) {
  std::string whole(line.substr(0, ends_of_words(line).first));
  std::vector<std::string> joined_so_far;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    joined_so_far.push_back(texts[i]);
    std::string spacing(sources[i].substr(ends_of_words(sources[i]).second));
    const bool is_last = i + 1 == texts.size();
    if (!is_last) spacing += sources[i + 1].substr(0, ends_of_words(sources[i + 1]).first);
    if (!is_last && (spacing.empty() || spacing == " ")) continue;
    whole += join_parts(joined_so_far) + spacing;
    joined_so_far.clear();
  }
  return whole;
}

}  // namespace babelring
