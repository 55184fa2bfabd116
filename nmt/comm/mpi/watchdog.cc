#include "nmt/comm/mpi/watchdog.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace babelring {

Watchdog::Watchdog(std::chrono::milliseconds deadline, std::function<void()> expired)
    : expired_(std::move(expired)), thread_([this, deadline] { watch(deadline); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    ended_.notify_all();
  }
  thread_.join();
}

void Watchdog::watch(std::chrono::milliseconds deadline) {
  // A longer gap than max_step means that the process was stopped.
  constexpr std::chrono::milliseconds interval{50}, max_step{1000};
  Nanoseconds waited{0};
  auto last = SteadyClock::now();
  std::unique_lock lock(mutex_);
  while (waited < deadline) {
    if (ended_.wait_for(lock, interval, [this] { return over_; })) return;
    const auto now = SteadyClock::now();
    waited += std::min<Nanoseconds>(now - last, max_step);
    last = now;
  }
  lock.unlock();
  expired_();
}

}  // namespace babelring
