#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/text.h"
#include "cli/runs/screen.h"

namespace babelring {

/// 243000000 → "243.0 MB".
std::string bytes_text(double bytes);
/// 451 → "7 min 31 s". Shows the two largest units.
std::string seconds_text(double seconds);

/// A bar of `width` characters in brackets: "[######....]" for 0.62.
std::string bar_text(double fraction, int width);

/// A text member with control characters escaped; "" if it is absent or null.
std::string text_of(const json::object& item, std::string_view name);

/// Replaces the UTC times (RFC 3339) in a sentence of the server's by local times: "22:46", or "2026-11-27 22:46" if
/// that is not today.
std::string local_times(std::string_view text, std::int64_t now_ms);

/// Formats a number; "" if there is none.
std::string fixed_text(std::optional<double> number, int decimals);
std::string grouped_text(std::optional<double> number);

/// A table with aligned columns. If it is wider than the screen, drops columns and cuts those that shrink with an
/// ellipsis, in the order of their importance, and then gives them the room that is left. Always drops a column that is
/// empty in all rows.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;   // right-aligned, for numbers
    int importance = 10;  // the lowest is dropped first; 100: never; above: not before all texts are cut
    bool shrinks = false;
    int shrinks_at = 0;  // importance at which it is cut to `comfortable`; all of them are cut to 8 at last
    std::size_t comfortable = 16;
  };
  struct Cell {
    std::string text;
    Colour colour = Colour::none;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Adds a row with one cell per column. The caller escapes untrusted texts.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  void print(const Screen& screen) const;

 private:
  /// Cuts a column to `width`, or drops it if that is 0.
  struct Step {
    int importance = 0;
    std::size_t column = 0, width = 0;
  };
  std::vector<Step> steps(const std::vector<std::size_t>& shown) const;
  void widen(const std::vector<std::size_t>& shown, const std::vector<std::size_t>& natural, std::size_t limit,
             std::vector<std::size_t>& widths) const;
  std::vector<std::size_t> fitting(const Screen& screen, std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// The number of columns that a UTF-8 text takes on a terminal: 2 for a wide character (Unicode's East Asian Width),
/// none for one that combines with the one before it.
std::size_t text_width(std::string_view text);

/// Shortens a text to at most `width` columns, the last of which then holds an ellipsis.
std::string cut(const std::string& text, std::size_t width);

}  // namespace babelring
