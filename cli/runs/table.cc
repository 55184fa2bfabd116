#include "cli/runs/table.h"

#include <algorithm>
#include <numeric>

#include "base/failure.h"

namespace babelring {
namespace {

constexpr std::size_t gap = 2;
constexpr std::size_t min_shrunk = 8;

std::size_t total(const std::vector<std::size_t>& shown, const std::vector<std::size_t>& widths) {
  std::size_t sum = shown.empty() ? 0 : gap * (shown.size() - 1);
  for (const std::size_t column : shown) sum += widths[column];
  return sum;
}

}  // namespace

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string cut(const std::string& text, std::size_t width) {
  if (text_width(text) <= width) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; seen + 1 < width; ++seen) {
    ++end;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) ++end;
  }
  return text.substr(0, end) + "…";
}

void Table::add(std::vector<Cell> row) {
  if (row.size() != columns_.size()) fail("table: a row of {} cells, expected {}", row.size(), columns_.size());
  rows_.push_back(std::move(row));
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
  const auto limit = static_cast<std::size_t>(screen.width);
  const auto too_wide = [&] { return limit > 0 && total(shown, widths) > limit; };
  const auto shrinking = std::find_if(shown.begin(), shown.end(), [&](std::size_t i) { return columns_[i].shrinks; });
  const std::size_t slack =
      shrinking == shown.end() ? 0 : widths[*shrinking] - std::min(widths[*shrinking], 2 * min_shrunk);
  const std::size_t shrinkable = shrinking == shown.end() ? columns_.size() : *shrinking;
  while (limit > 0 && total(shown, widths) > limit + slack) {
    const auto least = std::min_element(shown.begin(), shown.end(), [&](std::size_t a, std::size_t b) {
      return columns_[a].importance <= columns_[b].importance;  // drop the later of equals
    });
    if (columns_[*least].importance >= 100) break;
    shown.erase(least);
  }
  if (too_wide() && shrinkable < columns_.size()) {
    const std::size_t over = total(shown, widths) - limit;
    widths[shrinkable] = std::max(min_shrunk, widths[shrinkable] - std::min(widths[shrinkable], over));
  }
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
