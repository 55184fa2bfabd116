#include "nmt/data/pair_source.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/failure.h"
#include "base/text.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;
using namespace std::string_view_literals;
constexpr std::size_t looked_bytes = 1 << 16, longest_side = LineReader::longest_bytes;
constexpr std::string_view white = " \t\r\n";

/// The text without `from` up to the end of what begins there and ends with `end`; empty if that is not in sight.
std::string_view after(std::string_view text, std::string_view end) {
  const std::size_t at = text.find(end);
  return at == std::string_view::npos ? std::string_view() : text.substr(at + end.size());
}

/// The text after a document type, which may hold declarations in brackets.
std::string_view after_doctype(std::string_view text) {
  const std::size_t bracket = text.find_first_of("[>");
  if (bracket == std::string_view::npos || text[bracket] == '>') return after(text, ">");
  return after(after(text, "]"), ">");
}

/// The name of the first tag, in lower case and without a prefix; empty if the text does not begin with a tag.
std::string first_tag(std::string_view text) {
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(white), text.size()));
    if (!text.starts_with('<')) return {};
    if (text.starts_with("<?")) {
      text = after(text, "?>");
    } else if (text.starts_with("<!--")) {
      text = after(text, "-->");
    } else if (text.starts_with("<!")) {
      text = after_doctype(text);
    } else {
      const std::string name = lower(text.substr(1, text.find_first_of(" \t\r\n/>", 1) - 1));
      return name.substr(name.find(':') + 1);
    }
  }
}

bool looks_like_tsv(std::string_view text, bool whole) {
  constexpr int max_lines = 100;
  int lines = 0, with_tab = 0;
  while (!text.empty() && lines < max_lines) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos && !whole) break;  // the line goes on
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(white) == std::string_view::npos) continue;
    ++lines;
    with_tab += line.find('\t') != std::string_view::npos ? 1 : 0;
  }
  return lines > 0 && 10 * with_tab >= 9 * lines;
}

class TsvPairs : public PairSource {
 public:
  TsvPairs(std::unique_ptr<ByteSource> source, const fs::path& file, const PairChoice& choice)
      : reader_(std::move(source), file), choice_(choice) {}

  Next next(RawLine& source, RawLine& target) override {
    if (!reader_.next(source)) return Next::end;
    const auto first = column(source.text, choice_.source_column), second = column(source.text, choice_.target_column);
    // A line that was cut is known by that.
    if (!source.over_long && (!first || !second)) return Next::too_few_columns;
    target.text = second.value_or("");
    target.number = source.number;
    target.crlf = false;  // the line end counts once
    target.over_long = source.over_long;
    source.text = std::string(first.value_or(""));
    return Next::pair;
  }
  const fs::path& source_file() const override { return reader_.file(); }
  const fs::path& target_file() const override { return reader_.file(); }
  std::int64_t source_lines() const override { return reader_.lines(); }
  std::int64_t target_lines() const override { return reader_.lines(); }

 private:
  static std::optional<std::string_view> column(std::string_view line, int number) {
    for (; number > 1; --number) {
      const std::size_t tab = line.find('\t');
      if (tab == std::string_view::npos) return std::nullopt;
      line.remove_prefix(tab + 1);
    }
    return line.substr(0, line.find('\t'));
  }
  LineReader reader_;
  PairChoice choice_;
};

/// The value of an attribute of a tag, such as id="3"; empty if there is none.
std::string attribute_of(std::string_view tag, std::string_view name) {
  const std::string small = lower(tag);
  for (std::size_t at = small.find(name); at != std::string::npos; at = small.find(name, at + 1)) {
    const std::size_t equals = small.find_first_not_of(white, at + name.size());
    if (white.find(small[at - 1]) == std::string_view::npos || equals == std::string::npos || small[equals] != '=') {
      continue;
    }
    std::string_view value = tag.substr(equals + 1);
    value.remove_prefix(std::min(value.find_first_not_of(white), value.size()));
    if (value.starts_with('"') || value.starts_with('\''))
      return std::string(value.substr(1, value.find(value[0], 1) - 1));
    return std::string(value.substr(0, value.find_first_of(white)));
  }
  return {};
}

/// The text with characters for XML's five entities and for numbers. SGML of test sets also has bare ampersands, which
/// stay.
std::string without_entities(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 5> named = {
      {{"amp;", '&'}, {"lt;", '<'}, {"gt;", '>'}, {"quot;", '"'}, {"apos;", '\''}}};
  std::string out;
  while (!text.empty()) {
    const std::size_t mark = std::min(text.find('&'), text.size());
    out += text.substr(0, mark);
    text.remove_prefix(mark);
    if (text.empty()) break;
    text.remove_prefix(1);
    const auto* found =
        std::find_if(named.begin(), named.end(), [&](const auto& e) { return text.starts_with(e.first); });
    if (found != named.end()) {
      out += found->second;
      text.remove_prefix(found->first.size());
      continue;
    }
    const bool hexadecimal = text.starts_with("#x") || text.starts_with("#X");
    const char* digits = text.data() + std::min<std::size_t>(text.size(), hexadecimal ? 2 : 1);
    std::uint32_t code = 0;
    const auto number = std::from_chars(digits, text.data() + text.size(), code, hexadecimal ? 16 : 10);
    const bool ends = number.ptr != text.data() + text.size() && *number.ptr == ';';
    if (!text.starts_with('#') || number.ec != std::errc() || !ends || code > 0x10ffff) {
      out += '&';
      continue;
    }
    append_character(out, code);
    text.remove_prefix(static_cast<std::size_t>(number.ptr + 1 - text.data()));
  }
  return out;
}

/// A side of a pair of files: lines, or the segments of an SGML set, which need not be well-formed XML.
class Side {
 public:
  explicit Side(const fs::path& file) : reader_(file) {}

  bool next(RawLine& line) {
    if (!std::exchange(begun_, true)) tell_form();
    const bool found = sgml_ ? next_segment(line) : next_sentence(line);
    if (!found && !std::exchange(ended_, true) && (sgml_ || !reader_.compression().empty())) {
      spdlog::info("{}: {}", file().string(),
                   describe(sgml_ ? TextForm::sgml : TextForm::lines, reader_.compression()));
    }
    return found;
  }
  const fs::path& file() const { return reader_.file(); }
  std::int64_t read() const { return read_; }
  /// "document docid, segment 3" of the last segment; empty for lines.
  const std::string& id() const { return id_; }

 private:
  /// Not at opening, since a pipe may have nothing yet.
  void tell_form() {
    const TextForm form = form_of(reader_.look(looked_bytes));
    sgml_ = form == TextForm::sgml;
    if (holds_both_sides(form) && form != TextForm::tsv) {  // a text may have tabs
      fail("{} is {}, which holds both sides; expected it alone, or a text with a sentence on each line",
           file().string(), name_of(form));
    }
  }

  bool next_sentence(RawLine& out) {
    if (!reader_.next(out)) return false;
    refuse_markup(reader_.file(), out);
    ++read_;
    return true;
  }

  bool next_segment(RawLine& out) {
    while (const auto tag = next_tag()) {
      const std::string name = lower(tag->substr(0, tag->find_first_of(" \t\r\n/")));
      if (name == "srcset" || name == "refset" || name == "tstset") enter_set(name);
      if (name == "doc") enter_document(attribute_of(*tag, "docid"));
      if (name != "seg" || repeated_) continue;
      id_ = fmt::format("document '{}', segment {}", document_, attribute_of(*tag, "id"));
      out = {.number = line_.number};
      read_text(out);
      ++read_;
      return true;
    }
    return false;
  }

  void enter_set(const std::string& name) {
    if (!set_.empty() && set_ != name) {
      fail("{}:{}: <{}> after <{}>; expected one set in a file", file().string(), line_.number, name, set_);
    }
    set_ = name;
  }

  /// Further references of a document are left out.
  void enter_document(const std::string& name) {
    document_ = name;
    repeated_ = !name.empty() && !documents_.insert(name).second;
    if (repeated_ && !std::exchange(told_, true)) {
      spdlog::warn("{}:{}: document '{}' comes again; the first text of each document is read", file().string(),
                   line_.number, name);
    }
  }

  /// The next tag without its brackets, in which a comment counts as a tag; none at the end.
  std::optional<std::string> next_tag() {
    while (true) {
      const std::size_t begin = line_.text.find('<', at_);
      if (begin == std::string::npos) {
        if (!next_line()) return std::nullopt;
        continue;
      }
      const std::string_view close = line_.text.compare(begin, 4, "<!--") == 0 ? "-->" : ">";
      std::string tag;
      at_ = begin + 1;
      take_up_to(close, tag, "a tag");
      return tag;
    }
  }

  /// Appends the text before `close`, which may lie in a later line, and passes it.
  void take_up_to(std::string_view close, std::string& out, std::string_view what) {
    const std::int64_t first = line_.number;
    while (true) {
      const std::size_t end = find_lower(close);
      if (out.size() <= longest_side) out.append(line_.text, at_, end - at_);
      if (end < line_.text.size()) {
        at_ = end + close.size();
        return;
      }
      out += '\n';
      if (!next_line()) fail("{}:{}: {} without '{}'", file().string(), first, what, close);
    }
  }

  void read_text(RawLine& out) {
    std::string text;
    take_up_to("</seg", text, "a segment");
    if (text.find("<seg ") != std::string::npos) {
      fail("{}:{}: a segment without '</seg>'", file().string(), out.number);
    }
    out.over_long = text.size() > longest_side;
    out.text = without_entities(text);
    finish_line(out);
  }

  /// The position of `close`, in letters of any case, from at_; the length of the line if it is not there.
  std::size_t find_lower(std::string_view close) const {
    const auto alike = [](char a, char b) { return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b); };
    const auto found = std::search(line_.text.begin() + static_cast<std::ptrdiff_t>(std::min(at_, line_.text.size())),
                                   line_.text.end(), close.begin(), close.end(), alike);
    return static_cast<std::size_t>(found - line_.text.begin());
  }

  bool next_line() {
    at_ = 0;
    if (!reader_.next(line_)) return false;
    if (line_.over_long) fail("{}:{}: SGML in a line of over {} bytes", file().string(), line_.number, longest_side);
    return true;
  }

  LineReader reader_;
  bool begun_ = false, ended_ = false, sgml_ = false, repeated_ = false, told_ = false;
  std::int64_t read_ = 0;
  RawLine line_;
  std::size_t at_ = 0;  // unread from there in line_
  std::string set_, document_, id_;
  std::set<std::string> documents_;
};

class TwoFiles : public PairSource {
 public:
  TwoFiles(const fs::path& source, const fs::path& target) : source_(source), target_(target) {}

  Next next(RawLine& source, RawLine& target) override {
    const bool source_left = source_.next(source), target_left = target_.next(target);
    if (!source_left || !target_left) {
      return source_left ? Next::source_only : target_left ? Next::target_only : Next::end;
    }
    if (source_.id() != target_.id() && !source_.id().empty() && !target_.id().empty()) {
      fail("{}:{} has {}, {}:{} has {}; expected the same segments in the same order", source_file().string(),
           source.number, source_.id(), target_file().string(), target.number, target_.id());
    }
    return Next::pair;
  }
  const fs::path& source_file() const override { return source_.file(); }
  const fs::path& target_file() const override { return target_.file(); }
  std::int64_t source_lines() const override { return source_.read(); }
  std::int64_t target_lines() const override { return target_.read(); }

 private:
  Side source_, target_;
};

}  // namespace

std::string_view name_of(TextForm form) {
  static constexpr std::array names = {
      "plain text"sv, "SGML"sv, "TSV"sv, "TMX"sv, "XLIFF"sv, "XML of WMT"sv, "XML or HTML of another kind"sv};
  return names[static_cast<std::size_t>(form)];
}

std::string describe(TextForm form, std::string_view compression) {
  return fmt::format("{}{}{}", name_of(form), compression.empty() ? "" : ", ", compression);
}

bool holds_both_sides(TextForm form) {
  return form == TextForm::tsv || form == TextForm::tmx || form == TextForm::xliff || form == TextForm::wmt;
}

TextForm form_of(std::string_view start) {
  static constexpr std::array<std::pair<std::string_view, TextForm>, 8> roots = {{{"tmx", TextForm::tmx},
                                                                                  {"xliff", TextForm::xliff},
                                                                                  {"dataset", TextForm::wmt},
                                                                                  {"srcset", TextForm::sgml},
                                                                                  {"refset", TextForm::sgml},
                                                                                  {"tstset", TextForm::sgml},
                                                                                  {"mteval", TextForm::sgml},
                                                                                  {"html", TextForm::markup}}};
  const bool whole = start.size() < looked_bytes;
  std::string narrow;
  if (start.size() > 1 &&
      (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff") || start[0] == 0 || start[1] == 0)) {
    std::copy_if(start.begin(), start.end(), std::back_inserter(narrow), [](char c) { return c > 0; });  // UTF-16
    start = narrow;
  }
  if (start.starts_with("\xef\xbb\xbf")) start.remove_prefix(3);
  const std::string tag = first_tag(start);
  const auto* root = std::find_if(roots.begin(), roots.end(), [&](const auto& known) { return known.first == tag; });
  if (root != roots.end()) return root->second;
  if (!tag.empty() && start.substr(start.find('<')).starts_with("<?xml")) return TextForm::markup;
  return looks_like_tsv(start, whole) ? TextForm::tsv : TextForm::lines;
}

TextForm form_of(const fs::path& file) {
  std::error_code error;
  if (fs::exists(file, error) && !fs::is_regular_file(file, error)) return TextForm::lines;
  return form_of(ByteSource(file).look(looked_bytes));
}

std::unique_ptr<PairSource> open_pairs(const fs::path& source, const fs::path& target, const PairChoice& choice) {
  if (!target.empty()) return std::make_unique<TwoFiles>(source, target);
  auto bytes = std::make_unique<ByteSource>(source);
  const TextForm form = form_of(bytes->look(looked_bytes));
  if (!holds_both_sides(form)) {
    fail("{} is {}; expected TSV, TMX, XLIFF or XML of WMT, which hold both sides, or a second file, the target",
         source.string(), name_of(form));
  }
  if (form == TextForm::tsv) {
    spdlog::info("{}: {}, source in column {}, target in column {}", source.string(),
                 describe(form, bytes->compression()), choice.source_column, choice.target_column);
    return std::make_unique<TsvPairs>(std::move(bytes), source, choice);
  }
  return open_xml_pairs(std::move(bytes), source, form, choice);
}

void finish_line(RawLine& line) {
  std::string& text = line.text;
  std::size_t out = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = std::min(text.find_first_not_of(white, i), text.size());
    if (end == i) {
      text[out++] = text[i++];
      continue;
    }
    const bool breaks = std::any_of(text.begin() + static_cast<std::ptrdiff_t>(i),
                                    text.begin() + static_cast<std::ptrdiff_t>(end), [](char c) { return c != ' '; });
    const std::size_t spaces = out == 0 || end == text.size() ? 0 : breaks ? 1 : end - i;
    std::fill_n(text.begin() + static_cast<std::ptrdiff_t>(out), spaces, ' ');
    out += spaces;
    i = end;
  }
  text.resize(out);
  if (text.size() > longest_side) line.over_long = true;
  if (line.over_long) text.resize(std::min(text.size(), longest_side));
}

}  // namespace babelring
