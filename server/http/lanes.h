#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace babelring::http {

/// The queue and thread pool that serve a route. Lanes have their own threads, so requests of one lane never wait for
/// those of another.
enum class Lane : std::uint8_t {
  heartbeat,  // heartbeats of ranks
  ingest,     // records of ranks
  health,     // readiness checks
  ordinary,   // requests that read or change a bounded number of rows
  query,      // series and other long reads
  process,    // requests that start a process and wait for it
};

inline constexpr std::array<Lane, 6> all_lanes = {Lane::heartbeat, Lane::ingest, Lane::health,
                                                  Lane::ordinary,  Lane::query,  Lane::process};

/// The name used in metrics: heartbeat, ingest, …
std::string_view name_of(Lane lane);

/// Resource limits of a lane.
struct LaneLimits {
  std::size_t threads = 1;
  std::size_t max_waiting = 1;            // queued requests
  std::size_t max_waiting_per_owner = 1;  // queued requests per token, or per address without a token
  std::size_t max_running_per_owner = 1;  // below `threads`, no owner can occupy the whole lane
  int nice = 0;                           // added to the nice value of its threads
};

/// The limits of every lane. Each connection has at most one request in flight, so a queue as long as the number of
/// connections never refuses a request.
using LaneTable = std::array<LaneLimits, all_lanes.size()>;
LaneTable default_lanes();

/// A work item for a lane.
struct Work {
  /// Why an item is dropped without running.
  enum class Drop { full, abandoned, ending };

  std::string owner;                // token, or address without a token
  std::string subject;              // id of the run concerned; empty: none
  SteadyClock::time_point arrived;  // arrival of the request
  std::function<void()> run;
  std::function<void(Drop)> drop;        // called instead of run(); empty: the item is never dropped
  std::function<bool()> abandoned = {};  // true once the client has disconnected; may be empty
};

/// A fair queue of work from several owners. pop() serves the owner with the lowest accumulated cost, and each owner's
/// oldest item first. Cost incurred while no other owner waited is not charged. Not thread-safe.
class FairQueue {
 public:
  explicit FairQueue(const LaneLimits& limits) : limits_(limits) {}

  using Dropped = std::vector<std::pair<Work, Work::Drop>>;
  /// Adds an item. Returns the items dropped to make room: abandoned items; then, if the queue is full, the newest item
  /// of the owner with the longest queue, or the new item itself.
  Dropped push(Work work);
  /// Takes the next item that may run. It counts as running until finish(). Returns nothing if no item may run.
  std::optional<Work> pop();
  /// Reports the end of an item of this owner. `cost` is in arbitrary units; at least 1 is charged.
  void finish(const std::string& owner, double cost);
  /// Removes and returns all queued items.
  std::vector<Work> clear();

  std::size_t waiting() const { return waiting_; }
  std::size_t running() const { return running_; }
  /// Arrival time of the oldest queued item, of this subject only unless it is empty.
  std::optional<SteadyClock::time_point> oldest(const std::string& subject = {}) const;

 private:
  struct Line {
    std::deque<Work> work;
    std::size_t running = 0;
    double spent = 0;
    bool filed = false;  // is in ready_
  };
  using Lines = std::map<std::string, Line>;
  using Place = std::pair<double, std::string>;  // spent, owner

  /// Sets the line's accumulated cost to `spent`, and adds the line to ready_ or removes it.
  void file(Lines::value_type& entry, double spent);
  void drop_abandoned(Lines::value_type& entry, Dropped& dropped);
  void forget_idle();

  const LaneLimits limits_;
  Lines lines_;
  std::set<Place> ready_;  // lines with an item that may run
  double clock_ = 0;       // accumulated cost of the line served last
  std::size_t waiting_ = 0, running_ = 0;
};

/// The threads that run the handlers of requests. Each lane has its own threads and a fair queue. Thread-safe.
class Lanes {
 public:
  using Now = std::function<SteadyClock::time_point()>;
  /// Starts the threads.
  explicit Lanes(const LaneTable& table = default_lanes(), Now now = [] { return SteadyClock::now(); });
  /// Calls stop().
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Queues an item of work. Runs it on a thread of the lane, or calls its drop() on any thread, possibly before this
  /// returns.
  void submit(Lane lane, Work work);
  /// Drops all queued items and waits until the running ones have ended. Nothing runs afterwards.
  void stop();

  struct Stats {
    std::size_t waiting = 0, running = 0;
    double oldest_s = 0;                       // waiting time of the oldest queued item
    std::uint64_t refused = 0, abandoned = 0;  // dropped since the start: queue full; client disconnected
  };
  Stats stats(Lane lane) const;

  /// The time up to which all requests about a subject have been handled. It is now, unless one of them is queued or
  /// running.
  SteadyClock::time_point handled_until(Lane lane, const std::string& subject) const;

 private:
  struct Running {
    bool busy = false;
    std::string subject;
    SteadyClock::time_point arrived;
  };
  struct LaneState {
    explicit LaneState(const LaneLimits& limits) : queue(limits), running(limits.threads) {}
    mutable std::mutex mutex;  // guards the members below
    std::condition_variable changed;
    FairQueue queue;
    std::vector<Running> running;  // by thread
    std::uint64_t refused = 0, abandoned = 0;
    bool ending = false;
    std::vector<std::thread> threads;
  };
  LaneState& state(Lane lane) const { return *states_.at(static_cast<std::size_t>(lane)); }
  void serve(LaneState& state, Running& running, int nice);

  const Now now_;
  std::vector<std::unique_ptr<LaneState>> states_;  // by lane
};

}  // namespace babelring::http
