#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

namespace babelring {

/// For the lifetime of the object, the first SIGINT (Ctrl-C) or SIGTERM calls a function with its number, on a separate
/// thread, instead of ending the process. The second one ends the process. Only one object may exist at a time.
class Interrupt {
 public:
  explicit Interrupt(std::function<void(int signal)> on_interrupt);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  int pipe_[2] = {-1, -1};
  std::thread thread_;
};

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
