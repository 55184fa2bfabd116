#include "cli/runs/table.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <boost/json/object.hpp>
#include <cmath>
#include <cstring>
#include <ctime>
#include <iterator>
#include <utility>

#include "base/failure.h"
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

namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t min_shrunk = 8;
constexpr int never_dropped = 100;

std::size_t total(const std::vector<std::size_t>& shown, const std::vector<std::size_t>& widths) {
  std::size_t sum = shown.empty() ? 0 : gap * (shown.size() - 1);
  for (const std::size_t column : shown) sum += widths[column];
  return sum;
}

/// The columns that the character at `place` takes on a terminal; moves `place` behind it.
std::size_t next_width(std::string_view text, std::size_t& place) {
  UChar32 character = 0;
  U8_NEXT_OR_FFFD(text.data(), place, text.size(), character);  // NOLINT(bugprone-inc-dec-in-conditions): ICU's macro
  if ((U_GET_GC_MASK(character) & (U_GC_MN_MASK | U_GC_ME_MASK | U_GC_CF_MASK)) != 0) return 0;
  const auto width = static_cast<UEastAsianWidth>(u_getIntPropertyValue(character, UCHAR_EAST_ASIAN_WIDTH));
  return width == U_EA_WIDE || width == U_EA_FULLWIDTH ? 2 : 1;
}

}  // namespace

std::size_t text_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t place = 0; place < text.size();) width += next_width(text, place);
  return width;
}

std::string cut(const std::string& text, std::size_t width) {
  if (text_width(text) <= width) return text;
  std::size_t end = 0;
  for (std::size_t place = 0, seen = 0; place < text.size(); end = place) {
    seen += next_width(text, place);
    if (seen + 1 > width) break;
  }
  return text.substr(0, end) + "…";
}

void Table::add(std::vector<Cell> row) {
  if (row.size() != columns_.size()) fail("table: a row of {} cells, expected {}", row.size(), columns_.size());
  rows_.push_back(std::move(row));
}

/// The cuts and removals that make a table narrower, in this order.
std::vector<Table::Step> Table::steps(const std::vector<std::size_t>& shown) const {
  std::vector<Step> steps;
  for (const std::size_t i : shown) {
    const Column& column = columns_[i];
    if (column.importance != never_dropped) steps.push_back({column.importance, i, 0});
    if (!column.shrinks) continue;
    steps.push_back({column.shrinks_at, i, column.comfortable});
    steps.push_back({never_dropped + column.shrinks_at, i, min_shrunk});
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) {
    return std::pair(a.importance, b.column) < std::pair(b.importance, a.column);  // the later of equals first
  });
  return steps;
}

/// Gives the room that dropped columns left to those that were cut, first to those that are cut last.
void Table::widen(const std::vector<std::size_t>& shown, const std::vector<std::size_t>& natural, std::size_t limit,
                  std::vector<std::size_t>& widths) const {
  std::vector<std::size_t> cut;
  std::copy_if(shown.begin(), shown.end(), std::back_inserter(cut), [&](std::size_t i) { return columns_[i].shrinks; });
  std::stable_sort(cut.begin(), cut.end(),
                   [&](std::size_t a, std::size_t b) { return columns_[a].shrinks_at > columns_[b].shrinks_at; });
  for (const std::size_t i : cut) {
    const std::size_t sum = total(shown, widths);
    if (sum < limit) widths[i] += std::min(limit - sum, natural[i] - widths[i]);
  }
}

/// The columns that fit on the screen, in order. `widths` has an entry for every column.
std::vector<std::size_t> Table::fitting(const Screen& screen, std::vector<std::size_t>& widths) const {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t longest = 0;
    for (const auto& row : rows_) longest = std::max(longest, text_width(row[i].text));
    widths.push_back(std::max(longest, text_width(columns_[i].title)));
    if (longest > 0) shown.push_back(i);
  }
  if (screen.width <= 0) return shown;
  const auto limit = static_cast<std::size_t>(screen.width);
  const std::vector<std::size_t> natural = widths;
  for (const Step& step : steps(shown)) {
    const std::size_t sum = total(shown, widths);
    if (sum <= limit) break;
    std::size_t& width = widths[step.column];
    if (step.width > 0) {
      width = std::max(std::min(width, step.width), width - std::min(width, sum - limit));
    } else {
      std::erase(shown, step.column);
    }
  }
  widen(shown, natural, limit, widths);
  return shown;
}

void Table::print(const Screen& screen) const {
  std::vector<std::size_t> widths;
  const std::vector<std::size_t> shown = fitting(screen, widths);
  const auto line = [&](auto cell_of, auto colour_of) {
    std::string text;
    for (const std::size_t i : shown) {
      const std::string cell = cut(cell_of(i), widths[i]);
      const std::string pad(widths[i] - std::min(widths[i], text_width(cell)), ' ');
      const bool last = i == shown.back();
      if (columns_[i].right) text += pad;
      text += screen.coloured(cell, colour_of(i));
      if (!columns_[i].right && !last) text += pad;
      if (!last) text += std::string(gap, ' ');
    }
    screen.out << text << '\n';
  };
  line([&](std::size_t i) { return columns_[i].title; }, [](std::size_t) { return Colour::grey; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) { return row[i].text; }, [&](std::size_t i) { return row[i].colour; });
  }
}

}  // namespace babelring
