#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "base/clock.h"

namespace babelring::cpu {

/// Time that the threads of this process were ready to run but had no processor, summed over all of them. Absent where
/// the kernel does not say.
std::optional<Nanoseconds> processor_wait();

/// Shortens the spinning of OpenMP's threads while other threads compete for their processors. A thread of libgomp that
/// waits for its team spins for some milliseconds before it sleeps. This is fastest where each thread has a processor;
/// but where the thread that it waits for needs that processor, each wait lasts that long. libgomp spins 3,000 times
/// less while it has more threads than the process has processors (its manual, GOMP_SPINCOUNT). So this class keeps an
/// idle team as long as threads wait for processors. Does nothing for one thread, or if the user set OMP_WAIT_POLICY or
/// GOMP_SPINCOUNT. Not thread-safe.
class TeamWaiting {
 public:
  using Clock = std::function<SteadyClock::time_point()>;
  using Wait = std::function<std::optional<Nanoseconds>()>;
  /// `threads`: of a team. The others are for tests.
  explicit TeamWaiting(int threads, Wait wait = processor_wait, Clock clock = SteadyClock::now);
  ~TeamWaiting() { spin_long(); }
  TeamWaiting(const TeamWaiting&) = delete;
  TeamWaiting& operator=(const TeamWaiting&) = delete;

  /// Looks five times a second how long threads waited for processors. To be called between parallel loops.
  void look();
  /// Whether waiting threads spin briefly at present.
  bool brief() const { return idle_team_.joinable(); }

 private:
  void spin_briefly();
  void spin_long();

  const int threads_;
  const Wait wait_;
  const Clock clock_;
  Nanoseconds waited_{0};  // at the last look
  bool adapts_;
  SteadyClock::time_point looked_;
  SteadyClock::time_point competed_;  // last; in brief mode
  SteadyClock::time_point released_;  // when brief mode ended last
  Nanoseconds patience_;              // without competition, until threads spin long again
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;  // the idle team is to end; guarded by mutex_
  std::thread idle_team_;
};

}  // namespace babelring::cpu
