#include "nmt/data/xml_pairs.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/failure.h"
#include "base/log.h"
#include "base/text.h"
#include "nmt/data/text.h"

namespace babelring {

namespace {

namespace fs = std::filesystem;
constexpr std::size_t chunk_bytes = 1 << 16;
constexpr std::size_t max_unit_bytes = 64 << 20;
constexpr std::size_t max_tag_bytes = 1 << 20;

/// "en-gb" of "en_GB".
std::string plain(std::string_view language) {
  std::string out = lower(language);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string primary(std::string_view language) {
  const std::string out = plain(language);
  return out.substr(0, out.find('-'));
}

std::string_view local(const char* name) {
  const std::string_view whole(name);
  return whole.substr(whole.find(':') + 1);
}

/// Native codes of other programs, which are no text. Source: TMX 1.4b, XLIFF 1.2, "inline elements".
bool is_code(std::string_view name) {
  static constexpr std::array<std::string_view, 5> codes = {"bpt", "ept", "ph", "it", "ut"};
  return std::find(codes.begin(), codes.end(), name) != codes.end();
}

}  // namespace

std::string get_attribute(XmlAttributes attributes, std::string_view name) {
  for (; *attributes != nullptr; attributes += 2) {
    if (name == attributes[0]) return attributes[1];
  }
  return {};
}

int suits_language(std::string_view found, std::string_view wanted) {
  if (plain(found) == plain(wanted)) return 2;
  return plain(found).starts_with(plain(wanted) + "-") ? 1 : 0;
}

/// Expat's side of it.
struct XmlPairs::Handlers {
  /// Runs a part of a handler. Expat is C: no exception may pass through it.
  template <typename Action>
  static void guard(void* self, Action&& action) {
    auto& pairs = *static_cast<XmlPairs*>(self);
    if (pairs.failure_) return;
    pairs.tag_bytes_ = 0;
    try {
      action(pairs);
    } catch (...) {
      pairs.failure_ = std::current_exception();
      XML_StopParser(pairs.parser_.get(), XML_FALSE);
    }
  }

  static void on_open(void* self, const char* name, const char** attributes) {
    guard(self, [&](XmlPairs& pairs) { pairs.begin(local(name), attributes); });
  }
  static void on_close(void* self, const char* name) {
    guard(self, [&](XmlPairs& pairs) { pairs.end(local(name)); });
  }
  static void on_text(void* self, const char* text, int bytes) {
    guard(self, [&](XmlPairs& pairs) { pairs.take({text, static_cast<std::size_t>(bytes)}); });
  }
  static void on_entity(void* self, const char* name, int) {
    guard(self, [&](const XmlPairs& pairs) {
      fail("{}:{}: the file does not declare &{}; and nothing else is loaded", pairs.file_.string(), pairs.line(),
           name);
    });
  }
  /// Entities of other files. Without this Expat leaves them out and says nothing.
  static int on_outside(XML_Parser parser, const char*, const char*, const char* system, const char*) {
    guard(XML_GetUserData(parser), [&](const XmlPairs& pairs) {
      fail("{}:{}: an entity is in another file ({}), and nothing else is loaded", pairs.file_.string(), pairs.line(),
           printable(system != nullptr ? system : ""));
    });
    return XML_STATUS_ERROR;
  }
};

XmlPairs::XmlPairs(std::unique_ptr<ByteSource> source, fs::path file, TextForm form, const PairChoice& choice)
    : from_(choice.source_language),
      to_(choice.target_language),
      bytes_(std::move(source)),
      file_(std::move(file)),
      form_(form),
      parser_(XML_ParserCreate(nullptr), &XML_ParserFree),
      chunk_(chunk_bytes) {
  if (parser_ == nullptr) fail("expat: out of memory");
  XML_SetUserData(parser_.get(), this);
  XML_SetElementHandler(parser_.get(), Handlers::on_open, Handlers::on_close);
  XML_SetCharacterDataHandler(parser_.get(), Handlers::on_text);
  XML_SetSkippedEntityHandler(parser_.get(), Handlers::on_entity);
  XML_SetExternalEntityRefHandler(parser_.get(), Handlers::on_outside);
}

PairSource::Next XmlPairs::next(RawLine& source, RawLine& target) {
  while (found_.empty()) {
    if (ended_) {
      require_languages();
      return Next::end;
    }
    feed();
  }
  Found& found = found_.front();
  std::swap(source, found.source);
  std::swap(target, found.target);
  const Next kind = found.kind;
  found_.pop_front();
  ++read_;
  return kind;
}

std::string XmlPairs::languages() const {
  return from_.empty() || to_.empty() ? "" : fmt::format("{} to {}", from_, to_);
}

void XmlPairs::capture() {
  capturing_ = true;
  text_ = {.number = line()};
}

RawLine XmlPairs::captured() {
  capturing_ = false;
  finish_line(text_);
  return std::exchange(text_, {});
}

void XmlPairs::saw(std::string_view language) {
  constexpr std::size_t max_seen = 50;
  if (!language.empty() && seen_.size() < max_seen) seen_.insert(plain(language));
}

/// Without regions, which may differ between units, unless only they differ.
void XmlPairs::set_languages(const std::string& from, const std::string& to) {
  const bool differ = primary(from) != primary(to);
  if (from_.empty()) from_ = differ ? primary(from) : from;
  if (to_.empty()) to_ = differ ? primary(to) : to;
}

void XmlPairs::refuse_nested(bool inside, std::string_view name) const {
  if (inside) fail("{}:{}: <{}> inside of another; expected {}", file_.string(), line(), name, name_of(form_));
}

void XmlPairs::refuse_outside(bool outside, std::string_view name, std::string_view unit) const {
  if (outside) fail("{}:{}: <{}> outside of a <{}>; expected {}", file_.string(), line(), name, unit, name_of(form_));
}

void XmlPairs::add(RawLine* source, RawLine* target) {
  if (knows_languages() && !std::exchange(told_, true))
    spdlog::info("{}: {}, {} to {}", file_.string(), describe(form_, bytes_->compression()), from_, to_);
  if (source != nullptr && target != nullptr) {
    found_.push_back({Next::pair, std::move(*source), std::move(*target)});
    return;
  }
  RawLine* one = source != nullptr ? source : target;
  found_.push_back({Next::untranslated, one != nullptr ? std::move(*one) : RawLine{.number = line()}, {}});
}

/// Parses some bytes, from which pairs may come.
void XmlPairs::feed() {
  const auto count = bytes_->read(chunk_);
  if (!count) fail("cannot read {} after line {}: {}", file_.string(), line(), count.error());
  ended_ = *count == 0;
  const auto status = XML_Parse(parser_.get(), chunk_.data(), static_cast<int>(*count), ended_ ? 1 : 0);
  if (failure_) std::rethrow_exception(failure_);
  tag_bytes_ += *count;
  if (status != XML_STATUS_OK) {
    fail("{}:{}: {}; expected well-formed {}", file_.string(), line(), defect(), name_of(form_));
  }
  if (tag_bytes_ > max_tag_bytes + chunk_bytes) {
    fail("{}:{}: a tag or comment of over {} bytes", file_.string(), line(), max_tag_bytes);
  }
}

std::string XmlPairs::defect() const {
  const XML_Error code = XML_GetErrorCode(parser_.get());
  if (ended_ && (code == XML_ERROR_NO_ELEMENTS || code == XML_ERROR_UNCLOSED_TOKEN)) return "unexpected end of file";
  if (code == XML_ERROR_UNKNOWN_ENCODING) return "an encoding other than UTF-8, UTF-16 and ISO-8859-1 (see iconv)";
  return XML_ErrorString(code);
}

void XmlPairs::require_languages() const {
  for (const std::string& wanted : {from_, to_}) {
    const bool found =
        std::any_of(seen_.begin(), seen_.end(), [&](const auto& one) { return suits_language(one, wanted) > 0; });
    if (!found && !wanted.empty() && !seen_.empty()) {
      fail("{}: no text in '{}', only in {}; see --languages", file_.string(), wanted, fmt::join(seen_, ", "));
    }
  }
}

void XmlPairs::begin(std::string_view name, XmlAttributes attributes) {
  if (!capturing_) return open(name, attributes);
  ++depth_;
  if (code_depth_ > 0 || is_code(name)) ++code_depth_;
  const bool line_break = get_attribute(attributes, "ctype") == "lb" || get_attribute(attributes, "type") == "lb";
  if (line_break) text_.text += '\n';
  const std::string hex = name == "cp" ? get_attribute(attributes, "hex") : "";
  std::uint32_t code = 0;
  std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
  if (code > 0 && code <= 0x10ffff) append_character(text_.text, code);
}

void XmlPairs::end(std::string_view name) {
  if (depth_ == 0) return close(name);
  --depth_;
  if (code_depth_ > 0) --code_depth_;
}

void XmlPairs::take(std::string_view text) {
  if (!capturing_ || code_depth_ > 0) return;
  unit_bytes_ += text.size();
  if (unit_bytes_ > max_unit_bytes) {
    fail("{}:{}: over {} bytes of text in a unit", file_.string(), line(), max_unit_bytes);
  }
  if (text_.text.size() <= LineReader::longest_bytes) text_.text += text;
}

}  // namespace babelring
