#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace babelring {

/// A deadline for a call that cannot be interrupted. Unless destroyed first, calls `expired` once after `deadline`, on
/// its own thread. `expired` usually ends the process. Time during which the process was stopped (SIGSTOP) does not
/// count.
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
