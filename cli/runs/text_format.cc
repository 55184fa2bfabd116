#include "cli/runs/text_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstring>
#include <ctime>

#include "base/log.h"

namespace babelring {
namespace {

/// The length of an RFC 3339 time in UTC at the start of the text, 0 if there is none; sets `time` to its seconds.
std::size_t utc_time_at(std::string_view text, std::time_t& time) {
  std::tm parts{};
  const std::string start(text.substr(0, 40));
  const char* end = ::strptime(start.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (end == nullptr) return 0;
  end += std::strspn(end, ".0123456789");
  if (*end != 'Z') return 0;
  time = ::timegm(&parts);
  return static_cast<std::size_t>(end + 1 - start.c_str());
}

std::string local_time(std::time_t time, std::time_t now) {
  std::tm then{}, today{};
  ::localtime_r(&time, &then);
  ::localtime_r(&now, &today);
  const bool same_day = then.tm_yday == today.tm_yday && then.tm_year == today.tm_year;
  char text[32];
  return {text, std::strftime(text, sizeof text, same_day ? "%H:%M" : "%Y-%m-%d %H:%M", &then)};
}

}  // namespace

std::string local_times(std::string_view text, std::int64_t now_ms) {
  std::string replaced;
  while (!text.empty()) {
    std::time_t time = 0;
    const bool digit = text.front() >= '0' && text.front() <= '9';
    const std::size_t length = digit ? utc_time_at(text, time) : 0;
    if (length > 0) {
      replaced += local_time(time, static_cast<std::time_t>(now_ms / 1000));
    } else {
      replaced += text.front();
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return replaced;
}

std::string bytes_text(double bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(units)) {
    bytes /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

std::string seconds_text(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(std::max(0.0, seconds)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  if (whole < 86400) return fmt::format("{} h {} min", whole / 3600, whole / 60 % 60);
  return fmt::format("{} d {} h", whole / 86400, whole / 3600 % 24);
}

std::string bar_text(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width);
  return fmt::format("[{:#<{}}{:.<{}}]", "", filled, "", width - filled);
}

std::string text_of(const json::object& item, std::string_view name) {
  return printable(get_text(item, name));
}

std::string fixed_text(std::optional<double> number, int decimals) {
  return number ? fmt::format("{:.{}f}", *number, decimals) : std::string();
}

std::string grouped_text(std::optional<double> number) {
  return number ? grouped(*number) : std::string();
}

}  // namespace babelring
