#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/fair_queue.h"

namespace babelring::http {

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
