#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace babelring {

/// Gives a call that cannot be interrupted a deadline: unless it is destroyed before, calls `expired` once, on its own
/// thread. `expired` usually ends the process. Time in which the process itself was stopped does not count.
class Watchdog {
 public:
  Watchdog(std::chrono::milliseconds deadline, std::function<void()> expired);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(std::chrono::milliseconds deadline);

  std::function<void()> expired_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace babelring
