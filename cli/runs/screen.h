#pragma once

#include <ostream>
#include <string>
#include <string_view>

namespace babelring {

enum class Colour { none, grey, red, green, yellow, blue };

/// The output stream of a command and its capabilities.
struct Screen {
  std::ostream& out;
  bool live = false;  // a terminal on which lines can be overwritten
  bool colour = false;
  int width = 0;  // columns; 0: unlimited

  /// Standard output. Detects a terminal and respects NO_COLOR and TERM=dumb.
  static Screen of_stdout();

  /// Wraps the text in the colour's escape sequences, if `colour` is set.
  std::string coloured(std::string_view text, Colour colour) const;
};

/// The colour of a run's state.
Colour colour_of_state(std::string_view state);
/// The colour of a health level: good, warning, bad or unknown.
Colour colour_of_health(std::string_view level);

}  // namespace babelring
