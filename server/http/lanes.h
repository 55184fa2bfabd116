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

/// The threads that run requests' handlers, a fair queue before those of each lane. Thread-safe.
class Lanes {
 public:
  using Now = std::function<SteadyClock::time_point()>;
  /// Starts the threads.
  explicit Lanes(
      const LaneTable& table = default_lanes(), Now now = [] { return SteadyClock::now(); });
  /// Calls stop().
  ~Lanes();
  Lanes(const Lanes&) = delete;
  Lanes& operator=(const Lanes&) = delete;

  /// Queues the work; runs it on a thread of the lane, or calls its drop() on any thread, perhaps before this returns.
  void submit(Lane lane, Work work);
  /// Drops what waits, and returns when what runs has ended. Nothing runs after it.
  void stop();

  struct Stats {
    std::size_t waiting = 0, running = 0;
    double oldest_s = 0;                       // how long the oldest of the waiting has waited
    std::uint64_t refused = 0, abandoned = 0;  // since the start: for want of room; because their clients left
  };
  Stats stats(Lane lane) const;

  /// The time up to which everything that arrived about a subject has been handled: now, unless some of it waits or
  /// runs.
  SteadyClock::time_point handled_until(Lane lane, const std::string& subject) const;

 private:
  struct Running {
    bool busy = false;
    std::string subject;
    SteadyClock::time_point arrived;
  };
  struct Road {
    explicit Road(const LaneLimits& limits) : queue(limits), running(limits.threads) {}
    mutable std::mutex mutex;  // guards what follows
    std::condition_variable changed;
    FairQueue queue;
    std::vector<Running> running;  // by thread
    std::uint64_t refused = 0, abandoned = 0;
    bool ending = false;
    std::vector<std::thread> threads;
  };
  Road& road(Lane lane) const { return *roads_.at(static_cast<std::size_t>(lane)); }
  void serve(Road& road, Running& running, int nice);

  const Now now_;
  std::vector<std::unique_ptr<Road>> roads_;  // by lane
};

}  // namespace babelring::http
