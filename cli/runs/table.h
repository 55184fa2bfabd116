#pragma once

#include <string>
#include <vector>

#include "cli/runs/screen.h"

namespace babelring {

/// Rows in aligned columns. Where they are wider than the screen, the columns that matter least are left out, then the
/// one that may shrink is cut with an ellipsis. A column without a text in any row is left out always.
class Table {
 public:
  struct Column {
    std::string title;
    bool right = false;   // aligned to the right: numbers
    int importance = 10;  // the least important goes first; 100: stays
    bool shrinks = false;
  };
  struct Cell {
    std::string text;
    Colour colour = Colour::none;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// As many cells as columns. Texts are printed as they are: foreign ones are the caller's to escape.
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  void print(const Screen& screen) const;

 private:
  std::vector<std::size_t> fitting(const Screen& screen, std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Characters of a UTF-8 text: its columns, but for scripts with wide characters.
std::size_t text_width(std::string_view text);

/// The first `width` characters, an ellipsis the last of them where something was cut.
std::string cut(const std::string& text, std::size_t width);

}  // namespace babelring
