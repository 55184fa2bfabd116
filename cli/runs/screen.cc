#include "cli/runs/screen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "base/failure.h"
#include "base/options/program.h"

namespace babelring {
namespace {

std::atomic<int> signal_pipe = -1;  // write end, for the handler

void on_signal(int signal) {
  const char byte = static_cast<char>(signal);
  const int saved = errno;
  if (const int pipe = signal_pipe.load(); pipe >= 0) {
    [[maybe_unused]] const ssize_t written = write(pipe, &byte, 1);
  }
  errno = saved;
}

void set_handler(void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

Interrupt::Interrupt(std::function<void(int signal)> on_interrupt) {
  if (pipe2(pipe_, O_CLOEXEC) != 0) fail("interrupt: cannot create a pipe");
  signal_pipe = pipe_[1];
  set_handler(on_signal, static_cast<int>(SA_RESETHAND));
  thread_ = std::thread([this, on_interrupt = std::move(on_interrupt)] {
    char byte = 0;
    while (read(pipe_[0], &byte, 1) < 0 && errno == EINTR) {
    }
    if (byte != 0) on_interrupt(byte);
  });
}

Interrupt::~Interrupt() {
  set_handler(SIG_DFL, 0);
  signal_pipe = -1;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(pipe_[1], &byte, 1);
  thread_.join();
  close(pipe_[0]);
  close(pipe_[1]);
}

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
