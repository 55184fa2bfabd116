#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "nmt/comm/communicator.h"
#include "nmt/train/setup/requests.h"

namespace babelring {

/// The processes of the other ranks on this host. Detects their end through /proc at once, while MPI notices a lost
/// process only when its connections fail.
class LocalPeers {
 public:
  /// Collective: performs one all_gather.
  explicit LocalPeers(Communicator& communicator);

  /// The ranks whose process has ended, as "rank 3 (host hostB)" separated by commas; empty if all are running. Zombies
  /// count as ended. Thread-safe.
  std::string ended() const;

 private:
  struct Peer {
    int rank;
    std::string host;
    std::int64_t pid;
  };
  std::vector<Peer> peers_;
};

/// Receives the signals of the process on a thread. SIGTERM, SIGINT and SIGUSR1 end training after the current update,
/// with a checkpoint. A second SIGINT ends the process at once. SIGUSR2 is ignored with a warning, SIGPIPE silently.
///
/// All other threads must block these signals, because a handler's frame on the stack of a thread inside oneDNN's
/// AVX-512 code has corrupted the heap. Therefore the constructor blocks them in the calling thread, and in all threads
/// that it starts later: create the object before any other thread. They stay blocked after its destruction.
class SignalThread {
 public:
  /// `stop` must outlive the object.
  explicit SignalThread(StopRequest& stop);
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  /// True if SIGTERM was received. Thread-safe.
  bool terminated() const { return terminated_; }

 private:
  friend class SignalledRanks;
  void loop();
  void handle(int signal);
  void set_ranks(Communicator* communicator, const LocalPeers* peers);

  StopRequest& stop_;
  std::atomic<bool> terminated_{false}, ending_{false};
  std::mutex mutex_;                      // guards the next two
  Communicator* communicator_ = nullptr;  // null: none is registered
  const LocalPeers* peers_ = nullptr;
  std::thread thread_;
};

/// Registers a communicator, and the processes of its ranks on this host, for the lifetime of this object. When a rank
/// has died, mpirun sends SIGTERM to the others and SIGKILL a second later. On SIGTERM the communicator therefore fails
/// fast, and ranks that have ended are logged.
class SignalledRanks {
 public:
  /// Collective. Both must outlive the object.
  SignalledRanks(SignalThread& signals, Communicator& communicator);
  ~SignalledRanks();
  SignalledRanks(const SignalledRanks&) = delete;
  SignalledRanks& operator=(const SignalledRanks&) = delete;

 private:
  SignalThread& signals_;
  LocalPeers peers_;
};

}  // namespace babelring
