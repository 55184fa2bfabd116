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
#include "nmt/comm/collective.h"
#include "nmt/comm/communicator.h"
#include "nmt/comm/mpi/collectives.h"
#include "nmt/comm/mpi/peer_monitor.h"
#include "nmt/comm/mpi/ring.h"
#include "nmt/comm/shared/comm_memory.h"

namespace babelring {

/// The communication thread and the collectives it drives. MPI makes progress only inside MPI calls, so the thread
/// polls while a message is in flight. Otherwise it sleeps until its event count is notified. (Open MPI's own progress
/// thread hid 0 to 6 % of an all-reduce behind computation, MPI_Test between ops 50 to 70 %.) run() is the body of the
/// communication thread; submit(), wait() and stop() may be called by one other thread.
class MpiProgress {
 public:
  /// MPI resources of the collectives. Each kind of message has its own channel, so kinds cannot be confused.
  struct World {
    World(int own_rank, int all_ranks, std::int64_t segment_bytes);
    int rank, ranks;
    MpiChannel ring, collectives, transfers, questions;
    PeerMonitor peers;
    SegmentPool pool;
    ResultPool results;
  };
  using Make = std::function<std::unique_ptr<Collective>(World&, std::int64_t sequence)>;

  MpiProgress(const CommOptions& options, int rank, int ranks);

  /// The thread's body. Returns after stop() once nothing is in flight. After a failure, or if stopped with collectives
  /// in flight, it never returns, because MPI may still refer to its memory: detach the thread then.
  void run();

  /// Queues a collective; `make` creates it on the communication thread. Returns the number of collectives submitted so
  /// far. Throws CommError if an earlier collective failed.
  std::int64_t submit(Make make);
  /// Waits until all submitted collectives are complete, or the first `count`. Throws CommError if one failed.
  void wait(std::optional<std::int64_t> count = {});
  /// Asks the thread to end and waits for it. Returns true if it has ended (join it), false if it is parked or blocked
  /// inside MPI (detach it).
  bool stop();

  /// From now on the thread sleeps on `event_count`, which peers may also notify.
  void attach(std::shared_ptr<EventCount> event_count);

  /// See Communicator::fail_fast. Safe in a signal handler.
  void fail_fast(std::chrono::milliseconds silence) { silence_ms_.store(silence.count()); }
  /// Sets the host names for messages, and the ranks that this rank asks for signs of life. Before this call, messages
  /// name ranks without hosts, and it asks its neighbours in RankTree::by_number(), with which small collectives
  /// connect it anyway.
  void set_hosts(std::vector<std::string> hosts, std::vector<int> peers);
  double busy_ms() const;
  /// See Communicator.
  void record_spans(bool on);
  std::vector<CommSpan> take_spans();

 private:
  using Time = SteadyClock::time_point;
  struct Queued {
    Make make;
    Time asked{};  // zero: no span is recorded
  };
  enum class State { running, ended, parked };
  struct Active {
    std::unique_ptr<Collective> collective;
    std::int64_t sequence;
    Time asked{}, begun{};  // `asked` is zero if no span is recorded
    Time moved;             // time of its last progress
    bool done = false;
  };

  void loop();
  void admit();
  bool advance();
  void retire();
  static CommSpan span_of(const Active& active);
  void check_peers();
  void check_oldest(Active& oldest, Time now, std::int64_t entered);
  void pause(EventCount& event_count, std::uint32_t seen, bool moved);
  void finish(State state, const std::string& error);
  std::string blocked(Nanoseconds time) const;

  const CommOptions options_;
  const int rank_, ranks_;
  static_assert(std::atomic<std::int64_t>::is_always_lock_free, "fail_fast() is called in signal handlers");
  std::atomic<std::int64_t> silence_ms_{0};  // set by fail_fast(); 0 if not called
  std::atomic<std::int64_t> loops_{0};       // lets wait() detect a thread blocked inside MPI
  std::atomic<bool> awaited_{false};         // true while the other thread is in wait()
  std::atomic<EventCount*> event_count_;
  std::vector<std::shared_ptr<EventCount>>
      event_counts_;  // all that were attached so far; the thread may still sleep on an old one

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable progressed_;
  std::deque<Queued> queue_;
  std::vector<std::string> hosts_;
  std::optional<std::vector<int>> new_peers_;  // for the communication thread
  std::int64_t submitted_ = 0, completed_ = 0;
  std::string error_;
  double busy_ms_ = 0;
  bool recording_ = false;
  std::vector<CommSpan> spans_;
  bool stopping_ = false;
  State state_ = State::running;

  // Used only by the communication thread.
  std::optional<World> world_;
  std::deque<Active> active_;
  std::int64_t begun_ = 0, active_bytes_ = 0;
  Time busy_since_{}, last_peer_check_{};
  std::optional<Time> error_since_;  // when the oldest collective first reported an error
  int idle_rounds_ = 0;
};

}  // namespace babelring
