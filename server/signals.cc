#include "server/signals.h"

#include <csignal>
#include <cstring>

namespace babelring {
namespace {

sigset_t signal_set(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

void ignore_signals() {
  // With SIGPIPE and SIGXFSZ ignored, writing to a closed socket or past the file size limit returns an error.
  for (const int signal : {SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXFSZ}) {
    std::signal(signal, SIG_IGN);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) std::signal(signal, SIG_IGN);
  const sigset_t hangup = signal_set({SIGHUP});
  pthread_sigmask(SIG_BLOCK, &hangup, nullptr);
}

void block_signals() {
  const sigset_t termination = signal_set({SIGINT, SIGTERM, SIGQUIT, SIGXCPU});
  pthread_sigmask(SIG_BLOCK, &termination, nullptr);
}

int wait_for_signal() {
  const sigset_t all = signal_set({SIGHUP, SIGINT, SIGTERM, SIGQUIT, SIGXCPU});
  int signal = 0;
  sigwait(&all, &signal);
  return signal;
}

std::optional<int> wait_for_signal(std::chrono::milliseconds time) {
  const sigset_t ends = signal_set({SIGINT, SIGTERM, SIGQUIT, SIGXCPU});
  const timespec wait = {time.count() / 1000, static_cast<long>(time.count() % 1000) * 1'000'000};
  const int signal = sigtimedwait(&ends, nullptr, &wait);
  return signal > 0 ? std::optional(signal) : std::nullopt;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? std::to_string(signal) : std::string("SIG") + name;
}

}  // namespace babelring
