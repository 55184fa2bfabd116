#include "cli/runs/text_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>

#include "base/log.h"

namespace babelring {

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
