#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace babelring {

enum class Colour { none, grey, red, green, yellow, blue };

/// Where a command's output goes, and what can be done there.
struct Screen {
  std::ostream& out;
  bool live = false;  // a terminal: lines may be drawn over, colours used
  bool colour = false;
  int width = 0;  // columns; 0: not bounded

  /// Standard output as it is: a terminal or not, NO_COLOR and TERM=dumb heeded.
  static Screen of_stdout();

  /// The text between the colour's escape sequences, where colours are used.
  std::string coloured(std::string_view text, Colour colour) const;
};

/// Of a run's state.
Colour colour_of_state(std::string_view state);
/// Of a run's health: good, warning, bad or unknown.
Colour colour_of_health(std::string_view level);

}  // namespace babelring
