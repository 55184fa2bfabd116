#include "worker/signal_thread.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "nmt/comm/rank_results.h"

namespace babelring {
namespace {

/// Process ids are valid only within a PID namespace. Each container has its own.
std::string pid_namespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/pid", error).string();
}

bool has_ended(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return true;
  const std::size_t name_end = text.rfind(") ");  // the process name may contain any character
  return name_end == std::string::npos || text[name_end + 2] == 'Z' || text[name_end + 2] == 'X';
}

}  // namespace

LocalPeers::LocalPeers(Communicator& communicator) {
  const std::string own_namespace = pid_namespace();
  const std::vector<std::string>& hosts = communicator.hosts();
  const std::string& own_host = hosts[static_cast<std::size_t>(communicator.rank())];
  const auto all = gather_results(communicator, json::value{{"pid", getpid()}, {"namespace", own_namespace}});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (static_cast<int>(rank) == communicator.rank() || hosts[rank] != own_host) continue;
    if (all[rank]->at("namespace").as_string() != own_namespace || own_namespace.empty()) continue;
    peers_.push_back({static_cast<int>(rank), hosts[rank], all[rank]->at("pid").as_int64()});
  }
}

std::string LocalPeers::ended() const {
  std::string names;
  for (const Peer& peer : peers_) {
    if (!has_ended(peer.pid)) continue;
    names += fmt::format("{}rank {} (host {})", names.empty() ? "" : ", ", peer.rank, peer.host);
  }
  return names;
}

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
