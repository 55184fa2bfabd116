#pragma once

#include <string>
#include <vector>

#include "cli/runs/screen.h"

namespace babelring {

/// A table with aligned columns. If it is wider than the screen, drops columns and cuts those that shrink with an
/// ellipsis, in the order of their importance, and then gives them the room that is left. Always drops a column that is
/// empty in all rows.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;   // right-aligned, for numbers
    int importance = 10;  // the lowest is dropped first; 100: never dropped
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

/// The number of characters of a UTF-8 text. Counts wide characters as one column.
std::size_t text_width(std::string_view text);

/// Shortens a text to `width` characters, the last of which is then an ellipsis.
std::string cut(const std::string& text, std::size_t width);

}  // namespace babelring
