#include "nmt/data/text.h"

#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/uscript.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/failure.h"
#include "nmt/core/random.h"

namespace babelring {

namespace {

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

/// Length in bytes of the valid sequence at `i`, 0 if invalid. Source: Unicode 15, table 3-7.
std::size_t sequence_at(std::string_view text, std::size_t i) {
  const std::uint8_t lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const std::size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  if (i + length > text.size()) return 0;
  const std::uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte_at(text, i + 1) < low || byte_at(text, i + 1) > high) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if ((byte_at(text, i + k) & 0xc0) != 0x80) return 0;
  }
  return length;
}

/// Length in bytes of the white-space character at `i`, 0 if there is none.
std::size_t space_at(std::string_view text, std::size_t i) {
  constexpr std::array<std::string_view, 19> spaces = {
      "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004", "\u2005", "\u2006",
      "\u2007", "\u2008", "\u2009", "\u200a", "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  if (text[i] == ' ' || text[i] == '\t') return 1;
  if (byte_at(text, i) < 0x80) return 0;
  const auto found = std::find_if(spaces.begin(), spaces.end(),
                                  [&](std::string_view space) { return text.substr(i, space.size()) == space; });
  return found == spaces.end() ? 0 : found->size();
}

/// Calls `action` with each character, until it returns false.
template <typename Action>
void for_each_character(std::string_view text, Action&& action) {
  for (std::size_t place = 0; place < text.size();) {
    if (!action(next_character(text, place))) return;
  }
}

bool is_printable_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

bool is_blank(UChar32 c) {
  return u_isUWhiteSpace(c) || c == 0x2581 || c == 0x2800;  // SentencePiece's space mark and the blank Braille pattern
}

/// Unicode's default-ignorable and format characters, but not the format characters that enclose digits visibly.
bool is_ignorable(UChar32 c) {
  return u_hasBinaryProperty(c, UCHAR_DEFAULT_IGNORABLE_CODE_POINT) ||
         (u_charType(c) == U_FORMAT_CHAR && !u_hasBinaryProperty(c, UCHAR_PREPENDED_CONCATENATION_MARK));
}

constexpr std::int64_t parts_per_word = 12;

/// The parts of a word that a letter or digit of a script without spaces between words counts as; 0 for any other.
std::int64_t word_parts(UChar32 c) {
  constexpr UChar32 first_such_letter = 0x0e01;  // Thai
  if (c < first_such_letter || !u_isalnum(c)) {
    return c == 0x3007 ? 8 : 0;  // the Han digit 0, by its category no digit
  }
  UErrorCode error = U_ZERO_ERROR;
  switch (uscript_getScript(c, &error)) {
    case USCRIPT_HAN:
    case USCRIPT_YI:
      return 8;
    case USCRIPT_HIRAGANA:
    case USCRIPT_KATAKANA:
    case USCRIPT_KATAKANA_OR_HIRAGANA:
    case USCRIPT_BOPOMOFO:
      return 4;
    case USCRIPT_THAI:
    case USCRIPT_LAO:
    case USCRIPT_KHMER:
    case USCRIPT_MYANMAR:
    case USCRIPT_TIBETAN:
    case USCRIPT_TAI_LE:
    case USCRIPT_NEW_TAI_LUE:
    case USCRIPT_LANNA:
    case USCRIPT_TAI_VIET:
      return 3;
    default:
      return uscript_hasScript(c, USCRIPT_KATAKANA) ? 4 : 0;  // the mark of a long vowel
  }
}

/// Counts words; see count_words().
class WordCounter {
 public:
  void add(UChar32 c) {
    if (c == ' ') return end_of_word();
    inside_ = true;
    const std::int64_t parts = word_parts(c);
    parts_ += parts;
    without_spaces_ |= parts > 0;
    const bool in_run = parts == 0 && (u_isalnum(c) || (in_run_ && is_mark(c)));
    runs_ += in_run && !in_run_ ? 1 : 0;
    in_run_ = in_run;
  }
  std::int64_t finish() {
    end_of_word();
    return words_ + (parts_ + parts_per_word - 1) / parts_per_word;
  }

 private:
  static bool is_mark(UChar32 c) { return (U_GET_GC_MASK(c) & U_GC_M_MASK) != 0; }

  void end_of_word() {
    if (inside_) words_ += without_spaces_ ? runs_ : 1;
    inside_ = without_spaces_ = in_run_ = false;
    runs_ = 0;
  }

  std::int64_t words_ = 0, parts_ = 0;
  std::int64_t runs_ = 0;        // runs of other letters and digits between the spaces: names, numbers
  bool inside_ = false;          // a character was read since the last space
  bool without_spaces_ = false;  // and one of them is of a script without spaces
  bool in_run_ = false;
};

}  // namespace

std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_at(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

std::int64_t replace_invalid_utf8(std::string& text) {
  std::int64_t replaced = 0;
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_at(text, i);
    if (length == 0) {
      out += "\xef\xbf\xbd";
      ++replaced;
    }
    out.append(text, i, length);
    i += std::max<std::size_t>(length, 1);
  }
  text = std::move(out);
  return replaced;
}

std::int32_t next_character(std::string_view text, std::size_t& place) {
  UChar32 character = 0;
  U8_NEXT_OR_FFFD(text.data(), place, text.size(), character);  // NOLINT(bugprone-inc-dec-in-conditions): ICU's macro
  return character;
}

void append_character(std::string& text, std::uint32_t code) {
  std::array<char, 4> bytes{};
  std::size_t size = 0;
  U8_APPEND_UNSAFE(bytes.data(), size, code);
  text.append(bytes.data(), size);
}

void cut_text(std::string& text, std::size_t bytes) {
  if (text.size() > bytes) text.resize(bytes);
  std::size_t lead = text.size();
  while (lead > 0 && text.size() - lead < 4 && (static_cast<unsigned char>(text[lead - 1]) & 0xc0) == 0x80) --lead;
  if (lead > 0 && find_invalid_utf8(std::string_view(text).substr(lead - 1)) != std::string::npos)
    text.resize(lead - 1);
}

std::size_t find_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint8_t byte = byte_at(text, i);
    if ((byte < 0x20 && byte != '\t') || byte == 0x7f) return i;
    if (byte != 0xc2 || i + 1 == text.size()) continue;  // the lead byte of U+0080 to U+00BF
    const std::uint8_t second = byte_at(text, i + 1);
    if (second >= 0x80 && second < 0xa0 && second != 0x85) return i;
  }
  return std::string_view::npos;
}

std::string normalize_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool pending = false;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t space = space_at(text, i);
    if (space > 0) {
      pending = !out.empty();
      i += space;
      continue;
    }
    if (pending) out += ' ';
    pending = false;
    out += text[i++];
  }
  return out;
}

bool is_visible(std::string_view text) {
  bool visible = false;
  for_each_character(text, [&](UChar32 c) {
    visible = !is_blank(c) && !is_ignorable(c);
    return !visible;
  });
  return visible;
}

std::string comparable(std::string_view text) {
  if (is_printable_ascii(text)) return normalize_spaces(text);
  icu::UnicodeString visible;
  for_each_character(text, [&](UChar32 c) {
    if (is_blank(c)) {
      visible.append(static_cast<UChar32>(' '));
    } else if (!is_ignorable(c)) {
      visible.append(c);
    }
    return true;
  });
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* nfkc = icu::Normalizer2::getNFKCInstance(error);
  const icu::UnicodeString normal = nfkc != nullptr ? nfkc->normalize(visible, error) : visible;
  if (U_FAILURE(error)) fail("NFKC normalization: {}", u_errorName(error));
  std::string utf8;
  normal.toUTF8String(utf8);
  return normalize_spaces(utf8);
}

std::int64_t count_words(std::string_view text) {
  if (is_printable_ascii(text)) {
    return text.empty() ? 0 : 1 + static_cast<std::int64_t>(std::count(text.begin(), text.end(), ' '));
  }
  WordCounter counter;
  for_each_character(text, [&](UChar32 c) {
    counter.add(c);
    return true;
  });
  return counter.finish();
}

std::int64_t longest_word(std::string_view text) {
  std::int64_t longest = 0, length = 0;
  for_each_character(text, [&](UChar32 c) {
    length = c == ' ' || word_parts(c) > 0 ? 0 : length + 1;
    longest = std::max(longest, length);
    return true;
  });
  return longest;
}

std::uint64_t hash_text(std::string_view text, std::uint64_t seed) {
  std::uint64_t hash = derive_seed(seed, text.size());
  for (std::size_t i = 0; i < text.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    hash = mix64(hash ^ word) + 0x9e3779b97f4a7c15ULL;
  }
  return mix64(hash);
}

}  // namespace babelring
