#include "server/api/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <sstream>

#include "base/log.h"
#include "base/text.h"
#include "server/http/reply.h"

namespace babelring::api {
namespace {

constexpr const char* bad_cursor_detail = "cursor: not a cursor from this server";

std::string hex_of_text(std::string_view text) {
  std::string hex;
  for (const unsigned char c : text) hex += fmt::format("{:02x}", c);
  return hex;
}

std::optional<std::string> text_of_hex(std::string_view hex) {
  std::string text;
  for (; hex.size() >= 2; hex.remove_prefix(2)) {
    unsigned char byte = 0;
    if (std::from_chars(hex.data(), hex.data() + 2, byte, 16).ptr != hex.data() + 2) return std::nullopt;
    text += static_cast<char>(byte);
  }
  if (!hex.empty() || text.empty()) return std::nullopt;
  return text;
}

/// Parses a text from the front. After a mismatch, every further step fails.
class TimeReader {
 public:
  explicit TimeReader(std::string_view text) : rest_(text) {}

  /// Reads `digits` digits as a number up to `max`; 0 on a mismatch.
  int number(std::size_t digits, int max) {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + std::min(digits, rest_.size()), value);
    good_ = good_ && error == std::errc() && end == rest_.data() + digits && rest_.front() != '-' && value <= max;
    rest_.remove_prefix(std::min(digits, rest_.size()));
    return good_ ? value : 0;
  }
  bool take(char wanted) {
    const bool there = !rest_.empty() && rest_.front() == wanted;
    if (there) rest_.remove_prefix(1);
    return there;
  }
  void need(char wanted) { good_ = take(wanted) && good_; }
  /// Reads the digits of a fraction as milliseconds, truncated.
  int fraction_ms() {
    const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    good_ = good_ && digits > 0 && digits <= 9;
    std::string shown(rest_.substr(0, std::min<std::size_t>(digits, 3)));
    shown.resize(3, '0');
    rest_.remove_prefix(digits);
    return good_ ? std::stoi(shown) : 0;
  }
  bool at_end() const { return rest_.empty(); }
  bool good() const { return good_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

/// Reads the offset from UTC in minutes, positive to the east.
int zone_of(TimeReader& reader) {
  if (reader.take('Z') || reader.take('z')) return 0;
  const bool west = reader.take('-');
  if (!west && !reader.take(' ')) reader.need('+');  // an unencoded + in a query decodes to a space
  const int hours = reader.number(2, 23);
  reader.need(':');
  const int minutes = hours * 60 + reader.number(2, 59);
  return west ? -minutes : minutes;
}

}  // namespace

std::optional<std::int64_t> integer_query(const http::Request& request, const std::string& name, std::int64_t low,
                                          std::int64_t high) {
  const auto text = request.query_value(name);
  if (!text || text->empty()) return std::nullopt;
  const auto value = parse_number<std::int64_t>(*text);
  if (!value || *value < low || *value > high) {
    throw http::Problem(400, "bad_parameter",
                        fmt::format("{}: expected an integer from {} to {}, found '{}'", name, low, high, *text));
  }
  return value;
}

std::int64_t integer_query(const http::Request& request, const std::string& name, std::int64_t low, std::int64_t high,
                           std::int64_t absent) {
  return integer_query(request, name, low, high).value_or(absent);
}

double number_query(const http::Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  if (!text || text->empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto value = parse_number<double>(*text);
  if (value && std::isfinite(*value)) return *value;
  throw http::Problem(400, "bad_parameter", fmt::format("{}: expected a number, found '{}'", name, *text));
}

std::optional<bool> flag_query(const http::Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  if (!text || text->empty()) return std::nullopt;
  if (*text == "true" || *text == "false") return *text == "true";
  throw http::Problem(400, "bad_parameter", fmt::format("{}: expected true or false, found '{}'", name, *text));
}

std::string choice_query(const http::Request& request, const std::string& name,
                         std::initializer_list<std::string_view> allowed) {
  const std::string value = request.query_value(name).value_or(std::string(*allowed.begin()));
  std::string offered;
  for (const std::string_view word : allowed) {
    if (value == word) return value;
    if (!word.empty()) offered += fmt::format("{}{}", offered.empty() ? "" : ", ", word);
  }
  throw http::Problem(400, "bad_parameter", fmt::format("{}: expected one of {}, found '{}'", name, offered, value));
}

std::vector<std::string> list_query(const http::Request& request, const std::string& name) {
  std::vector<std::string> values;
  std::istringstream text(request.query_value(name).value_or(""));
  for (std::string value; std::getline(text, value, ',');) values.push_back(std::move(value));
  return values;
}

std::optional<std::int64_t> parse_time(std::string_view text) {
  TimeReader reader(text);
  const std::chrono::year year(reader.number(4, 9999));
  reader.need('-');
  const std::chrono::month month(static_cast<unsigned>(reader.number(2, 12)));
  reader.need('-');
  const std::chrono::year_month_day date(year, month, std::chrono::day(static_cast<unsigned>(reader.number(2, 31))));
  if (!reader.good() || !date.ok()) return std::nullopt;
  const auto day_ms = std::chrono::milliseconds(std::chrono::sys_days(date).time_since_epoch()).count();
  if (reader.at_end()) return day_ms;
  if (!reader.take('t')) reader.need('T');
  std::int64_t seconds = std::int64_t{3600} * reader.number(2, 23);
  reader.need(':');
  seconds += std::int64_t{60} * reader.number(2, 59);
  reader.need(':');
  seconds += reader.number(2, 60);
  const int fraction_ms = reader.take('.') ? reader.fraction_ms() : 0;
  seconds -= std::int64_t{60} * zone_of(reader);
  if (!reader.good() || !reader.at_end()) return std::nullopt;
  return day_ms + seconds * 1000 + fraction_ms;
}

std::optional<std::int64_t> time_query(const http::Request& request, const std::string& name) {
  const auto text = request.query_value(name);
  if (!text) return std::nullopt;
  if (const auto time_ms = parse_time(*text)) return time_ms;
  throw http::Problem(
      400, "bad_parameter",
      fmt::format("{}: expected a time such as 2026-11-21T08:15:30Z or a day such as 2026-11-21, found '{}'", name,
                  printable(std::string_view(*text).substr(0, 100))));
}

std::int64_t page_limit(const http::Request& request) {
  return integer_query(request, "limit", 1, 500, 50);
}

std::string make_cursor(std::int64_t a, std::int64_t b) {
  return fmt::format("p{:x}.{:x}", a, b);
}

std::pair<std::int64_t, std::int64_t> read_cursor(const http::Request& request) {
  const auto text = request.query_value("cursor");
  if (!text) return {0, 0};
  std::int64_t a = 0, b = 0;
  const auto dot = text->find('.');
  const bool formed = text->starts_with('p') && dot != std::string::npos;
  const char* end = text->data() + text->size();
  if (formed && std::from_chars(text->data() + 1, text->data() + dot, a, 16).ptr == text->data() + dot &&
      std::from_chars(text->data() + dot + 1, end, b, 16).ptr == end && dot + 1 < text->size() && a >= 0 && b >= 0) {
    return {a, b};
  }
  throw http::Problem(400, "bad_cursor", bad_cursor_detail);
}

std::string make_name_cursor(std::string_view name) {
  return 'n' + hex_of_text(name);
}

std::string read_name_cursor(const http::Request& request) {
  const auto cursor = request.query_value("cursor");
  if (!cursor) return "";
  auto name = text_of_hex(cursor->starts_with('n') ? std::string_view(*cursor).substr(1) : "-");
  if (!name) throw http::Problem(400, "bad_cursor", bad_cursor_detail);
  return std::move(*name);
}

}  // namespace babelring::api
