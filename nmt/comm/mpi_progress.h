#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "nmt/comm/bell.h"
#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi_ring.h"
#include "nmt/comm/mpi_roll_call.h"

namespace babelring {

/// The communication thread and the collectives it drives. MPI moves data only while it is called, so the thread polls
/// while one of its messages is in flight, and sleeps until its bell rings otherwise.
/// submit(), wait() and stop() are for one other thread; run() is the communication thread itself.
class MpiProgress {
 public:
  /// What collectives work with: a channel for each kind of message, so that they are never confused.
  struct World {
    World(int own_rank, int all_ranks, std::int64_t segment_bytes);
    int rank, ranks;
    MpiChannel ring, collectives, questions;
    RollCall roll_call;
    SegmentPool pool;
  };
  using Make = std::function<std::unique_ptr<Collective>(World&, std::int64_t sequence)>;

  MpiProgress(const CommOptions& options, int rank, int ranks);

  /// The thread's body: returns when stop() was called and nothing is in flight. After a failure, or stopped with
  /// something in flight, it parks for good, because MPI may still refer to memory it holds: detach it then.
  void run();

  /// Queues a collective; `make` runs on the communication thread. Throws CommError if an earlier one failed.
  void submit(Make make);
  /// Waits until all submitted ones are complete. Throws CommError of the first that failed.
  void wait();
  /// Asks the thread to end. True: it has ended, join it; false: it is parked or stuck in MPI, detach it.
  bool stop();

  /// From now on peers may ring `bell` as well.
  void attach(std::shared_ptr<Bell> bell);

  /// See Communicator::fail_fast. Safe in a signal handler.
  void fail_fast(std::chrono::milliseconds silence) { silence_ms_.store(silence.count()); }
  /// For messages. Until then ranks are named without hosts.
  void set_hosts(std::vector<std::string> hosts);
  double busy_ms() const;

 private:
  using Time = SteadyClock::time_point;
  enum class State { running, ended, parked };
  struct Active {
    std::unique_ptr<Collective> collective;
    std::int64_t sequence;
    Time moved;  // when anything of it last moved
    bool done = false;
  };

  void loop();
  void admit();
  bool advance();
  void retire();
  void look_after_peers();
  void judge(Active& oldest, Time now);
  std::string silent_peers(Nanoseconds silence) const;
  std::string peer_behind() const;
  std::string peer_name(int rank) const;
  void pause(Bell& bell, std::uint32_t rung, bool moved);
  void finish(State state, const std::string& error);

  const CommOptions options_;
  const int rank_, ranks_;
  static_assert(std::atomic<std::int64_t>::is_always_lock_free, "fail_fast() is called in signal handlers");
  std::atomic<std::int64_t> silence_ms_{0};  // of fail_fast(); 0: not asked for
  std::atomic<std::int64_t> loops_{0};       // shows wait() that the thread is not stuck in MPI
  std::atomic<bool> awaited_{false};         // the other thread is in wait()
  std::atomic<Bell*> bell_;
  std::vector<std::shared_ptr<Bell>> bells_;  // every one attached so far: the thread may still sleep on the one before

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable progressed_;
  std::deque<Make> queue_;
  std::vector<std::string> hosts_;
  std::int64_t submitted_ = 0, completed_ = 0;
  std::string error_;
  double busy_ms_ = 0;
  bool stopping_ = false;
  State state_ = State::running;

  // The communication thread's own.
  std::optional<World> world_;
  std::deque<Active> active_;
  std::int64_t begun_ = 0, active_bytes_ = 0;
  Time busy_since_{}, last_look_{};
  std::optional<Time> troubled_since_;  // the oldest collective
  int idle_rounds_ = 0;
};

}  // namespace babelring
