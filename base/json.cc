#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/value_stack.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <vector>

#include "base/log.h"

namespace babelring {

namespace json = boost::json;

std::string get_text(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_string() ? std::string(member->get_string()) : "";
}

std::int64_t get_integer(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_int64() ? member->get_int64() : 0;
}

std::optional<double> get_number(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  if (member == nullptr || !member->is_number()) return std::nullopt;
  return member->to_number<double>();
}

bool get_flag(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr && member->is_bool() && member->get_bool();
}

const json::object* get_object(const json::object& object, std::string_view name) {
  const json::value* member = object.if_contains(name);
  return member != nullptr ? member->if_object() : nullptr;
}

namespace {

constexpr std::size_t max_members = 100'000;  // total in all open objects; finding duplicate names needs a sort

template <class Number>
void append_number(std::string& out, Number number) {
  std::array<char, 32> digits{};
  out.append(digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr);
}

void append_double(std::string& out, double number) {
  if (!std::isfinite(number)) {
    out += "null";
  } else if (number == 0 && std::signbit(number)) {
    out += "-0.0";  // "-0" would be read back as the integer 0
  } else {
    append_number(out, number);
  }
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned int>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_value(std::string& out, const json::value& value);

void append_array(std::string& out, const json::array& array) {
  out += '[';
  bool first = true;
  for (const json::value& element : array) {
    if (!first) out += ',';
    first = false;
    append_value(out, element);
  }
  out += ']';
}

void append_object(std::string& out, const json::object& object) {
  out += '{';
  bool first = true;
  for (const auto& member : object) {
    if (!first) out += ',';
    first = false;
    append_string(out, member.key());
    out += ':';
    append_value(out, member.value());
  }
  out += '}';
}

void append_value(std::string& out, const json::value& value) {
  switch (value.kind()) {
    case json::kind::null:
      out += "null";
      break;
    case json::kind::bool_:
      out += value.get_bool() ? "true" : "false";
      break;
    case json::kind::int64:
      append_number(out, value.get_int64());
      break;
    case json::kind::uint64:
      append_number(out, value.get_uint64());
      break;
    case json::kind::double_:
      append_double(out, value.get_double());
      break;
    case json::kind::string:
      append_string(out, value.get_string());
      break;
    case json::kind::array:
      append_array(out, value.get_array());
      break;
    case json::kind::object:
      append_object(out, value.get_object());
      break;
  }
}

/// A SAX handler that differs from that of Boost.JSON 1.81 in three ways. It rounds doubles correctly (Boost.JSON is
/// sometimes off by one ulp), refuses duplicate member names (Boost.JSON keeps the last) and refuses numbers that
/// overflow a double (Boost.JSON turns 1e400 into infinity). Boost.JSON prescribes the function names.
class StrictHandler {
 public:
  static constexpr std::size_t max_object_size = json::object::max_size();
  static constexpr std::size_t max_array_size = json::array::max_size();
  static constexpr std::size_t max_key_size = json::string::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size();
  using Code = boost::system::error_code;
  using Text = json::string_view;

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t members, Code& code) {
    const auto first = names_.end() - static_cast<std::ptrdiff_t>(members);
    std::sort(first, names_.end());
    const auto repeated = std::adjacent_find(first, names_.end());
    if (repeated != names_.end()) return refuse(code, "duplicate member '" + printable(*repeated) + "' in an object");
    names_.erase(first, names_.end());
    stack_.push_object(members);
    return count(code);
  }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t elements, Code& code) {
    stack_.push_array(elements);
    return count(code);
  }
  bool on_key_part(Text part, std::size_t bytes, Code& code) {
    name_ += part;
    stack_.push_chars(part);
    return fits(bytes, code);
  }
  bool on_key(Text part, std::size_t bytes, Code& code) {
    if (!fits(bytes, code)) return false;
    name_ += part;
    names_.push_back(std::move(name_));
    name_.clear();
    stack_.push_key(part);
    return names_.size() <= max_members || refuse(code, fmt::format("more than {} members", max_members));
  }
  bool on_string_part(Text part, std::size_t bytes, Code& code) {
    stack_.push_chars(part);
    return fits(bytes, code);
  }
  bool on_string(Text part, std::size_t bytes, Code& code) {
    stack_.push_string(part);
    return fits(bytes, code) && count(code);
  }
  bool on_number_part(Text part, Code&) {
    number_ += part;
    return true;
  }
  bool on_int64(std::int64_t number, Text, Code& code) {
    number_.clear();
    stack_.push_int64(number);
    return count(code);
  }
  bool on_uint64(std::uint64_t number, Text, Code& code) {
    number_.clear();
    stack_.push_uint64(number);
    return count(code);
  }
  bool on_double(double approximate, Text part, Code& code) {
    number_ += part;
    double number = approximate;
    const auto error = std::from_chars(number_.data(), number_.data() + number_.size(), number).ec;
    number_.clear();
    if (error == std::errc::result_out_of_range && std::abs(approximate) > 1) {
      return refuse(code, "a number is beyond the range of a double");
    }
    stack_.push_double(error == std::errc() ? number : 0.0);  // underflow
    return count(code);
  }
  bool on_bool(bool value, Code& code) {
    stack_.push_bool(value);
    return count(code);
  }
  bool on_null(Code& code) {
    stack_.push_null();
    return count(code);
  }
  bool on_comment_part(Text, Code&) { return true; }
  bool on_comment(Text, Code&) { return true; }

  void start(const JsonLimits& limits) {
    stack_.reset();
    limits_ = limits;
  }
  json::value release() { return stack_.release(); }
  const std::string& refusal() const { return refusal_; }

 private:
  bool count(Code& code) {
    return ++values_ <= limits_.values || refuse(code, fmt::format("more than {} values", limits_.values));
  }
  bool fits(std::size_t bytes, Code& code) {
    return bytes <= limits_.string_bytes ||
           refuse(code, fmt::format("a string is longer than {} bytes", limits_.string_bytes));
  }
  bool refuse(Code& code, std::string why) {
    refusal_ = std::move(why);
    code = json::error::syntax;
    return false;
  }

  JsonLimits limits_;
  std::size_t values_ = 0;
  json::value_stack stack_;
  std::string name_;                // parts of the member name being read
  std::string number_;              // parts of the number being read
  std::vector<std::string> names_;  // of all open objects, innermost last
  std::string refusal_;
};

}  // namespace

std::string to_text(const json::value& value) {
  std::string out;
  append_value(out, value);
  return out;
}

Result<json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  json::basic_parser<StrictHandler> parser{json::parse_options{}};  // depth 32, UTF-8 checked, no comments
  parser.handler().start(limits);
  boost::system::error_code code;
  std::size_t used = parser.write_some(false, text.data(), text.size(), code);
  if (!code && used < text.size()) code = json::error::extra_data;
  if (!code) return parser.handler().release();
  const std::string& refusal = parser.handler().refusal();
  return Error{fmt::format("JSON, byte {}: {}", used, refusal.empty() ? code.message() : refusal)};
}

}  // namespace babelring
