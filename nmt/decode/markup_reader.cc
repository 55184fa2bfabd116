#include "nmt/decode/markup.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "base/log.h"
#include "base/text.h"

namespace babelring {
namespace {

constexpr std::size_t max_depth = 200;  // bounds the recursion over what a client sends

bool is_one_of(std::string_view name, std::string_view names) {  // separated and surrounded by spaces
  return names.find(fmt::format(" {} ", name)) != names.npos;
}

constexpr std::string_view html_void = " area base br col embed hr img input link meta param source track wbr ";
constexpr std::string_view html_raw = " script style ";
constexpr std::string_view html_blocks =
    " address article aside blockquote body button caption center dd details dialog div dl dt fieldset figcaption "
    "figure footer form h1 h2 h3 h4 h5 h6 head header hgroup html legend li main nav ol optgroup option p pre script "
    "section select style summary table tbody td textarea tfoot th thead title tr ul ";
constexpr std::string_view html_joining = " wbr ";
constexpr std::string_view xliff_copied = " bpt ept it ph ";
constexpr std::string_view xliff_joining = " bx ex bpt ept it sc ec mrk sm em ";

// Names of U+00A0 to U+00FF in their order, which HTML also knows without a semicolon, and others of HTML 4.
constexpr std::array latin_entities = {
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",    "copy",   "ordf",
    "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn", "sup2",   "sup3",   "acute",  "micro",
    "para",   "middot", "cedil",  "sup1",   "ordm",   "raquo",  "frac14", "frac12", "frac34", "iquest", "Agrave",
    "Aacute", "Acirc",  "Atilde", "Auml",   "Aring",  "AElig",  "Ccedil", "Egrave", "Eacute", "Ecirc",  "Euml",
    "Igrave", "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde", "Ograve", "Oacute", "Ocirc",  "Otilde", "Ouml",
    "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",  "Uuml",   "Yacute", "THORN",  "szlig",  "agrave", "aacute",
    "acirc",  "atilde", "auml",   "aring",  "aelig",  "ccedil", "egrave", "eacute", "ecirc",  "euml",   "igrave",
    "iacute", "icirc",  "iuml",   "eth",    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide",
    "oslash", "ugrave", "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml"};
constexpr std::array<std::pair<std::string_view, UChar32>, 5> xml_entities = {
    {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}}};
constexpr std::array<std::pair<std::string_view, UChar32>, 30> html_entities = {
    {{"OElig", 0x152},   {"oelig", 0x153},   {"Scaron", 0x160},  {"scaron", 0x161}, {"Yuml", 0x178},
     {"fnof", 0x192},    {"circ", 0x2c6},    {"tilde", 0x2dc},   {"ensp", 0x2002},  {"emsp", 0x2003},
     {"thinsp", 0x2009}, {"ndash", 0x2013},  {"mdash", 0x2014},  {"lsquo", 0x2018}, {"rsquo", 0x2019},
     {"sbquo", 0x201a},  {"ldquo", 0x201c},  {"rdquo", 0x201d},  {"bdquo", 0x201e}, {"dagger", 0x2020},
     {"bull", 0x2022},   {"hellip", 0x2026}, {"permil", 0x2030}, {"prime", 0x2032}, {"lsaquo", 0x2039},
     {"rsaquo", 0x203a}, {"euro", 0x20ac},   {"trade", 0x2122},  {"rarr", 0x2192},  {"minus", 0x2212}}};

UChar32 entity_of(std::string_view name, MarkupForm form) {
  const auto same = [&](const auto& entity) { return entity.first == name; };
  if (const auto* found = std::ranges::find_if(xml_entities, same); found != xml_entities.end()) return found->second;
  if (form == MarkupForm::xliff) return 0;
  if (const auto* found = std::ranges::find(latin_entities, name); found != latin_entities.end()) {
    return 0xa0 + static_cast<UChar32>(found - latin_entities.begin());
  }
  const auto* found = std::ranges::find_if(html_entities, same);
  return found == html_entities.end() ? 0 : found->second;
}

void append_character(std::string& text, UChar32 character) {
  std::array<char, U8_MAX_LENGTH> bytes{};
  std::size_t size = 0;
  U8_APPEND_UNSAFE(bytes.data(), size, character);
  text.append(bytes.data(), size);
}

/// Reads a line into a tree. Throws Error.
class MarkupReader {
 public:
  MarkupReader(std::string_view line, MarkupForm form) : line_(line), form_(form) {}

  std::vector<MarkupPart> read() {
    while (at_ < line_.size()) {
      if (line_[at_] == '<' && read_tag()) continue;
      if (line_[at_] == '&' && read_entity()) continue;
      add_text(line_.substr(at_, 1), line_.substr(at_, 1));
      ++at_;
    }
    if (open_.size() > 1) throw Error{fmt::format("'{}' is not closed", shown(open_.back().open))};
    return std::move(open_.front().parts);
  }

 private:
  struct Tag {
    std::string_view bytes;
    std::string name;
    bool closes = false, is_empty = false, is_copied = false;
  };
  bool html() const { return form_ == MarkupForm::html; }
  bool is_same(std::string_view a, std::string_view b) const { return html() ? lower(a) == lower(b) : a == b; }
  static std::string shown(std::string_view tag) {
    std::string text(tag);
    if (text.size() > 60) cut_to(text, 60);
    return printable(text);
  }
  static void cut_to(std::string& text, std::size_t bytes) {
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0U) == 0x80U) --bytes;
    text.resize(bytes);
    text += "...";
  }
  std::vector<MarkupPart>& parts() { return open_.back().parts; }

  void add_text(std::string_view bytes, std::string_view text) {
    if (parts().empty() || !parts().back().is_text) {
      parts().emplace_back();
      parts().back().is_text = true;
    }
    parts().back().open += bytes;
    parts().back().text += text;
  }
  void add_copied(std::string_view bytes, bool divides) {
    MarkupPart part;
    part.open = bytes;
    part.divides = divides;
    parts().push_back(std::move(part));
    at_ += bytes.size();
  }
  /// The line from here to the end of `end`.
  std::string_view through(std::string_view end, std::string_view thing) const {
    const std::size_t found = line_.find(end, at_);
    if (found == line_.npos) throw Error{fmt::format("'{}' has no '{}'", thing, end)};
    return line_.substr(at_, found + end.size() - at_);
  }

  bool read_tag() {
    const std::string_view rest = line_.substr(at_);
    if (rest.starts_with("<!--")) return add_copied(through("-->", "<!--"), false), true;
    if (!html() && rest.starts_with("<![CDATA[")) {
      const std::string_view all = through("]]>", "<![CDATA[");
      add_text(all, all.substr(9, all.size() - 12));
      return at_ += all.size(), true;
    }
    if (rest.starts_with("<!") || rest.starts_with("<?"))
      return add_copied(through(">", rest.substr(0, 2)), false), true;
    const std::size_t name = rest.starts_with("</") ? 2 : 1;
    const char first = name < rest.size() ? rest[name] : ' ';
    const bool begins = (lower(std::string(1, first))[0] >= 'a' && lower(std::string(1, first))[0] <= 'z') ||
                        (!html() && (first == '_' || static_cast<unsigned char>(first) >= 0x80));
    if (!begins) {
      if (html()) return false;
      throw Error{fmt::format("'{}' begins no tag; write &lt; for <", shown(rest.substr(0, 10)))};
    }
    const Tag tag = scan_tag();
    at_ += tag.bytes.size();
    tag.closes ? close(tag) : open(tag);
    return true;
  }

  /// The tag that begins here.
  Tag scan_tag() const {
    Tag tag;
    std::size_t at = at_ + 1;
    if (line_[at] == '/') tag.closes = true, ++at;
    const auto end_of = [&](std::string_view enders) {
      const std::size_t end = std::min(line_.find_first_of(enders, at), line_.size());
      return line_.substr(at, end - at);
    };
    tag.name = end_of(" \t\r\n\f/>");
    at += tag.name.size();
    if (html()) tag.name = lower(tag.name);
    while (at < line_.size() && line_[at] != '>') {
      tag.is_empty = line_[at] == '/';
      if (tag.is_empty || markup_spaces.find(line_[at]) != markup_spaces.npos) {
        ++at;
        continue;
      }
      const std::string_view key = end_of(" \t\r\n\f/>=");
      at += std::max<std::size_t>(key.size(), 1);
      while (at < line_.size() && markup_spaces.find(line_[at]) != markup_spaces.npos) ++at;
      if (key.empty() || at >= line_.size() || line_[at] != '=') continue;
      at = std::min(line_.find_first_not_of(markup_spaces, at + 1), line_.size());
      std::string_view value;
      if (at < line_.size() && (line_[at] == '"' || line_[at] == '\'')) {
        const std::size_t end = line_.find(line_[at], at + 1);
        if (end == line_.npos) break;
        value = line_.substr(at + 1, end - at - 1);
        at = end + 1;
      } else {
        value = end_of(" \t\r\n\f>");
        at += value.size();
      }
      tag.is_copied |= (is_same(key, "translate") && is_same(value, "no")) || (key == "mtype" && value == "protected");
    }
    if (at >= line_.size() || line_[at] != '>') {
      throw Error{fmt::format("'{}' has no '>'", shown(line_.substr(at_)))};
    }
    tag.bytes = line_.substr(at_, at + 1 - at_);
    return tag;
  }

  void open(const Tag& tag) {
    MarkupPart part;
    part.open = tag.bytes;
    part.name = tag.name;
    part.is_element = true;
    part.divides = !is_one_of(tag.name, html() ? html_joining : xliff_joining);
    part.is_block = html() && is_one_of(tag.name, html_blocks);
    part.is_copied = tag.is_copied || (!html() && is_one_of(tag.name, xliff_copied));
    if (tag.is_empty || (html() && is_one_of(tag.name, html_void))) {
      part.is_element = false;
      parts().push_back(std::move(part));
      return;
    }
    if (open_.size() > max_depth) {  // the first is the line
      throw Error{
          fmt::format("'{}' is within {} others, expected at most {}", shown(tag.bytes), max_depth, max_depth - 1)};
    }
    const bool raw = html() && is_one_of(tag.name, html_raw);
    open_.push_back(std::move(part));
    if (!raw) return;
    const std::size_t end = lower(line_).find("</" + tag.name, at_);
    if (end == std::string::npos) throw Error{fmt::format("'{}' is not closed", shown(tag.bytes))};
    open_.back().is_copied = true;
    add_copied(line_.substr(at_, end - at_), false);
  }

  void close(const Tag& tag) {
    if (open_.size() == 1) throw Error{fmt::format("'{}' closes no tag", shown(tag.bytes))};
    MarkupPart part = std::move(open_.back());
    if (part.name != tag.name) {
      throw Error{fmt::format("'{}' found, expected '</{}>' for '{}'", shown(tag.bytes), printable(part.name),
                              shown(part.open))};
    }
    open_.pop_back();
    part.close = tag.bytes;
    if (part.is_copied) {
      part.open = part.bytes();
      part.close.clear();
      part.parts.clear();
      part.is_element = false;
    }
    parts().push_back(std::move(part));
  }

  /// False if no entity begins here, so that the & is text.
  bool read_entity() {
    const std::size_t end = std::min(line_.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                                             "0123456789#",
                                                             at_ + 1),
                                     line_.size());
    const std::string_view name = line_.substr(at_ + 1, end - at_ - 1);
    const bool ended = end < line_.size() && line_[end] == ';';
    const std::string_view bytes = line_.substr(at_, end + (ended ? 1 : 0) - at_);
    const UChar32 character =  // 0: none
        (name.starts_with('#') ? numeric(name.substr(1)) : entity_of(name, form_)).value_or(0);
    if (!html() && !(ended && character != 0)) throw Error{fmt::format("'{}' is no entity of XML", shown(bytes))};
    const bool legacy = character != 0 && (name.starts_with('#') || character <= 0xff) && name != "apos";
    if (character == 0 || (!ended && !legacy)) {
      if (!ended || name.empty() || name.starts_with('#')) return false;
      return add_copied(bytes, true), true;  // one of HTML's two thousand others
    }
    std::string text;
    append_character(text, u_iscntrl(character) ? ' ' : character);
    add_text(bytes, text);
    at_ += bytes.size();
    return true;
  }

  /// The character of a reference by number. Null: none.
  static std::optional<UChar32> numeric(std::string_view digits) {
    const bool hex = digits.starts_with('x') || digits.starts_with('X');
    if (hex) digits.remove_prefix(1);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
    const bool good = error == std::errc() && end == digits.data() + digits.size() && value <= 0x10ffff &&
                      !U_IS_SURROGATE(value) && value > 0;
    return good ? std::optional(static_cast<UChar32>(value)) : std::nullopt;
  }

  std::string_view line_;
  MarkupForm form_;
  std::size_t at_ = 0;
  std::vector<MarkupPart> open_ = std::vector<MarkupPart>(1);  // the line, then elements that are open
};

}  // namespace

std::vector<MarkupPart> read_markup_parts(std::string_view line, MarkupForm form) {
  return MarkupReader(line, form).read();
}

}  // namespace babelring
