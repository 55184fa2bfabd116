#include "cli/runs/screen.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "base/options/program.h"

namespace babelring {

Screen Screen::of_stdout() {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  Screen screen{.out = std::cout, .live = terminal && !dumb};
  screen.colour = screen.live && (no_colour == nullptr || *no_colour == '\0');
  screen.width = terminal_columns(STDOUT_FILENO);
  return screen;
}

std::string Screen::coloured(std::string_view text, Colour wanted) const {
  if (!colour || wanted == Colour::none) return std::string(text);
  constexpr int codes[] = {0, 90, 31, 32, 33, 34};
  return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<int>(wanted)], text);
}

Colour colour_of_state(std::string_view state) {
  if (state == "running" || state == "launching") return Colour::green;
  if (state == "failed" || state == "lost") return Colour::red;
  if (state == "stopping" || state == "restarting" || state == "suspended" || state == "queued") return Colour::yellow;
  return state == "succeeded" ? Colour::blue : Colour::grey;
}

Colour colour_of_health(std::string_view level) {
  if (level == "good") return Colour::green;
  if (level == "warning") return Colour::yellow;
  return level == "bad" ? Colour::red : Colour::grey;
}

}  // namespace babelring
