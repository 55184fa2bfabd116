#include "cli/runs/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>

#include "base/failure.h"

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

}  // namespace babelring
