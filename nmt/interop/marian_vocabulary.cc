// The vocabulary: Marian 1.12, src/data/default_vocab.cpp, and YAML 1.2. The script: OPUS-MT-train,
// scripts/preprocess-spm.sh.
#include <spdlog/spdlog.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <set>

#include "base/failure.h"
#include "base/log.h"
#include "nmt/interop/marian.h"

namespace babelring {
namespace {

std::string utf8(std::uint32_t code) {
  std::string text(4, '\0');
  std::int32_t size = 0;
  bool is_wrong = false;
  U8_APPEND(text.data(), size, 4, static_cast<UChar32>(code), is_wrong);
  text.resize(is_wrong ? 0 : static_cast<std::size_t>(size));
  return text;
}

/// Reads scalars of YAML, quoted or plain, one after the other.
class YamlScanner {
 public:
  YamlScanner(std::string_view text, const std::string& file) : text_(text), file_(file) {
    if (text_.starts_with("\ufeff")) at_ = 3;
  }

  bool at_end() const { return at_ == text_.size(); }
  char next() const { return at_end() ? '\0' : text_[at_]; }
  bool take(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return false;
    at_ += expected.size();
    return true;
  }
  /// Passes spaces, line ends, comments, and the lines that begin and end a document.
  void skip() {
    for (;;) {
      while (!at_end() && std::string_view(" \t\r\n").find(next()) != std::string_view::npos) ++at_;
      const bool at_line = at_ == 0 || text_[at_ - 1] == '\n';
      const std::string_view line = text_.substr(at_, text_.find_first_of("\r\n", at_) - at_);
      if (next() != '#' && !(at_line && (line == "---" || line == "..." || line.starts_with("%YAML")))) return;
      at_ += line.size();
    }
  }
  void skip_spaces() {
    while (next() == ' ' || next() == '\t') ++at_;
  }
  /// A key. A plain one ends before a colon with a space or the end of its line behind it.
  std::string key(bool in_braces) {
    if (next() == '"') return double_quoted();
    if (next() == '\'') return single_quoted();
    const std::size_t begin = at_;
    for (; !at_end() && next() != '\n'; ++at_) {
      const char behind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\n';
      if (next() == ':' && (behind == ' ' || behind == '\n' || behind == '\r')) break;
      if (in_braces && (next() == ',' || next() == '}')) break;
    }
    std::string_view plain = text_.substr(begin, at_ - begin);
    while (plain.ends_with(' ') || plain.ends_with('\r')) plain.remove_suffix(1);
    return std::string(plain);
  }
  std::int64_t id(const std::string& piece) {
    const char quote = next() == '"' || next() == '\'' ? next() : '\0';
    if (quote != '\0') ++at_;
    std::int32_t value = -1;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) refuse(fmt::format("no id behind {}", printable(piece)));
    at_ = static_cast<std::size_t>(end - text_.data());
    if (quote != '\0' && !take(std::string_view(&quote, 1))) refuse(fmt::format("no id behind {}", printable(piece)));
    return value;
  }
  [[noreturn]] void refuse(std::string_view found) const {
    const auto line = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n') + 1;
    fail("{}:{}: found {}, expected piece: id", file_, line, found);
  }

 private:
  std::string single_quoted() {
    std::string text;
    for (++at_; !at_end(); ++at_) {
      if (next() == '\'') {
        ++at_;
        if (next() != '\'') return text;
      }
      text += next();
    }
    refuse("a quotation mark that is not closed");
  }
  std::string double_quoted() {
    std::string text;
    for (++at_; !at_end(); ++at_) {
      if (next() == '"') {
        ++at_;
        return text;
      }
      if (next() != '\\') {
        text += next();
        continue;
      }
      ++at_;
      text += escaped();
    }
    refuse("a quotation mark that is not closed");
  }
  /// The text of the escape at whose letter the scanner stands; leaves it at its last character.
  std::string escaped() {
    static const std::map<char, std::string_view> texts = {{'0', std::string_view("\0", 1)},
                                                           {'a', "\a"},
                                                           {'b', "\b"},
                                                           {'t', "\t"},
                                                           {'n', "\n"},
                                                           {'v', "\v"},
                                                           {'f', "\f"},
                                                           {'r', "\r"},
                                                           {'e', "\x1b"},
                                                           {'_', "\u00a0"},
                                                           {'N', "\u0085"},
                                                           {'L', "\u2028"},
                                                           {'P', "\u2029"}};
    const char letter = next();
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits == 0) {
      if (letter == '\n') {  // the text goes on in the next line
        while (at_ + 1 < text_.size() && (text_[at_ + 1] == ' ' || text_[at_ + 1] == '\t')) ++at_;
        return "";
      }
      const auto found = texts.find(letter);
      return found == texts.end() ? std::string(1, letter) : std::string(found->second);
    }
    std::uint32_t code = hexadecimal(digits);
    if (code >> 10 == 0xd800 >> 10 && text_.substr(at_ + 1).starts_with("\\u")) {  // JSON's two halves
      at_ += 2;
      code = 0x10000 + ((code & 0x3ff) << 10 | (hexadecimal(4) & 0x3ff));
    }
    return utf8(code);
  }
  std::uint32_t hexadecimal(std::size_t digits) {
    const std::string_view text = text_.substr(std::min(at_ + 1, text_.size()), digits);
    std::uint32_t code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code, 16);
    if (error != std::errc() || end != text.data() + digits) refuse("an escape that is no code point");
    at_ += digits;
    return code;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
};

void set_piece(std::vector<std::string>& pieces, std::set<std::string>& known, std::string piece, std::int64_t id,
               const YamlScanner& scanner) {
  constexpr std::int64_t max_id = 10'000'000;
  if (id > max_id) scanner.refuse(fmt::format("the id {}, of at most {},", id, max_id));
  if (piece.empty()) scanner.refuse("an empty piece");
  if (!known.insert(piece).second) return;
  if (id >= std::ssize(pieces)) pieces.resize(static_cast<std::size_t>(id) + 1);
  std::string& place = pieces[static_cast<std::size_t>(id)];
  if (!place.empty()) {
    scanner.refuse(fmt::format("the id {} of {} and of {}", id, printable(place), printable(piece)));
  }
  place = std::move(piece);
}

}  // namespace

std::vector<std::string> yaml_pieces(std::string_view yaml, const std::string& file) {
  std::vector<std::string> pieces;
  std::set<std::string> known;
  YamlScanner scanner(yaml, file);
  scanner.skip();
  const bool in_braces = scanner.take("{");
  for (scanner.skip(); !scanner.at_end() && !(in_braces && scanner.take("}")); scanner.skip()) {
    const bool is_explicit = scanner.take("? ");  // a long key, with its value in the next line
    std::string piece = scanner.key(in_braces);
    is_explicit ? scanner.skip() : scanner.skip_spaces();
    if (!scanner.take(":")) scanner.refuse(fmt::format("no colon behind {}", printable(piece)));
    scanner.skip();
    const std::int64_t id = scanner.id(piece);
    set_piece(pieces, known, std::move(piece), id, scanner);
    scanner.skip_spaces();
    const bool is_end = scanner.at_end() || scanner.next() == '\n' || scanner.next() == '\r' || scanner.next() == '#';
    if (!is_end && !(in_braces && (scanner.take(",") || scanner.next() == '}'))) {
      scanner.refuse(fmt::format("more behind the id {}", id));
    }
    if (in_braces) {
      scanner.skip();
      scanner.take(",");
    }
  }
  if (pieces.empty()) fail("{}: found no piece, expected piece: id", file);
  return pieces;
}

namespace {

/// The plain text of a part of a rule s/A/B/, without its backslashes; `is_plain` is false if it is a pattern.
std::string plain_text(std::string_view part, bool is_pattern, bool& is_plain) {
  std::string text;
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (part[at] == '\\' && at + 1 < part.size()) {
      ++at;
      if (std::isalnum(static_cast<unsigned char>(part[at])) != 0) is_plain = false;
    } else if ((is_pattern && std::string_view(".*[]^$").find(part[at]) != std::string_view::npos) || part[at] == '&') {
      is_plain = false;
    }
    text += part[at];
  }
  return text;
}

/// Adds the rule of a sed command. Returns false if it replaces no plain text.
bool add_rule(std::string_view command, Replacements& rules) {
  const std::size_t middle = command.find('/', 2),
                    end = middle == std::string_view::npos ? middle : command.find('/', middle + 1);
  if (!command.starts_with("s/") || end == std::string_view::npos || command.substr(end) != "/g") return false;
  std::string_view pattern = command.substr(2, middle - 2);
  const std::string_view replacement = command.substr(middle + 1, end - middle - 1);
  // "X *" by "Y ": runs of spaces become one anyway.
  if (pattern.ends_with(" *") && replacement.ends_with(' ')) pattern.remove_suffix(2);
  bool is_plain = true;
  const std::string from = plain_text(pattern, true, is_plain), to = plain_text(replacement, false, is_plain);
  if (is_plain && !from.empty()) rules.emplace(from, to);
  return is_plain;
}

}  // namespace

Replacements replacements_of_script(std::string_view script, const std::string& file) {
  Replacements rules;
  for (std::size_t at = script.find("-e "); at != std::string_view::npos; at = script.find("-e ", at + 1)) {
    const std::size_t begin = at + 4;
    const char quote = begin <= script.size() ? script[at + 3] : '\0';
    const std::size_t end = quote == '"' || quote == '\'' ? script.find(quote, begin) : std::string_view::npos;
    if (end == std::string_view::npos) continue;
    const std::string_view command = script.substr(begin, end - begin);
    if (!add_rule(command, rules)) {
      spdlog::warn("{}: {} replaces no plain text and is left out", file, printable(command.substr(0, 100)));
    }
  }
  if (script.find("\\p{C}") == std::string_view::npos) return rules;
  // Control and format characters and those for private use of the first plane; not those without a meaning yet.
  for (UChar32 code = 1; code <= UCHAR_MAX_VALUE; ++code) {
    constexpr std::uint32_t kinds = U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK;
    if (code == '\n' || (U_GET_GC_MASK(code) & kinds) == 0 || (u_charType(code) == U_PRIVATE_USE_CHAR && code > 0xffff))
      continue;
    rules.emplace(utf8(static_cast<std::uint32_t>(code)), " ");
  }
  return rules;
}

}  // namespace babelring
