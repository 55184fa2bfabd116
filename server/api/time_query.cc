#include "server/api/time_query.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/log.h"
#include "server/http/problem.h"

namespace babelring::api {
namespace {

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

}  // namespace babelring::api
