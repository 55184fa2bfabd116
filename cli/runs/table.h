#pragma once

#include <string>
#include <vector>

#include "cli/runs/screen.h"

namespace babelring {

/// A table with aligned columns. If it is wider than the screen, drops the least important columns, then cuts the
/// column that shrinks with an ellipsis. Always drops a column that is empty in all rows.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;   // right-aligned, for numbers
    int importance = 10;  // the lowest is dropped first; 100: never dropped
    bool shrinks = false;
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
  std::vector<std::size_t> fitting(const Screen& screen, std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// The number of characters of a UTF-8 text. Counts wide characters as one column.
std::size_t text_width(std::string_view text);

/// Shortens a text to `width` characters, the last of which is then an ellipsis.
std::string cut(const std::string& text, std::size_t width);

}  // namespace babelring
