#include "worker/signal_thread.h"

#include <spdlog/spdlog.h>

#include <csignal>

namespace babelring {

namespace {

/// Time to say why communication ends: Open MPI 5 sends SIGKILL 250 ms after SIGTERM, Open MPI 4 after a second.
constexpr std::chrono::milliseconds before_sigkill{100};

sigset_t handled_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  return signals;
}

/// Ends this process as if SIGINT had never been handled.
void end_by_interrupt() {
  std::signal(SIGINT, SIG_DFL);
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  std::raise(SIGINT);
}

}  // namespace

SignalThread::SignalThread(StopRequest& stop) : stop_(stop) {
  const sigset_t signals = handled_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  thread_ = std::thread([this] { loop(); });
}

SignalThread::~SignalThread() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGUSR2);  // wakes the thread
  thread_.join();
}

void SignalThread::loop() {
  const sigset_t signals = handled_signals();
  for (int interrupts = 0, signal = 0; sigwait(&signals, &signal) == 0 && !ending_;) {
    if (signal == SIGINT && ++interrupts == 2) end_by_interrupt();
    handle(signal);
  }
}

void SignalThread::handle(int signal) {
  if (signal == SIGUSR2) {
    spdlog::warn("SIGUSR2 is ignored, training continues; SIGUSR1 saves a checkpoint and ends training");
    return;
  }
  stop_.request();
  if (signal != SIGTERM) return;
  terminated_ = true;
  const std::lock_guard lock(mutex_);
  if (communicator_ == nullptr) return;
  communicator_->fail_fast(before_sigkill);
  const std::string ended = peers_->ended();
  if (!ended.empty()) spdlog::warn("received SIGTERM; already ended: {}", ended);
}

void SignalThread::set_ranks(Communicator* communicator, const LocalPeers* peers) {
  const std::lock_guard lock(mutex_);
  communicator_ = communicator;
  peers_ = peers;
}

SignalledRanks::SignalledRanks(SignalThread& signals, Communicator& communicator)
    : signals_(signals), peers_(communicator) {
  signals_.set_ranks(&communicator, &peers_);
}

SignalledRanks::~SignalledRanks() {
  signals_.set_ranks(nullptr, nullptr);
}

}  // namespace babelring
