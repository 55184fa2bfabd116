#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace babelring {

/// A thread that calls `work` periodically until it is destroyed: `interval` after its start or after the last call
/// returned, and at once after wake(). An exception is logged as "NAME: what()" and does not end the thread.
class RepeatingThread {
 public:
  RepeatingThread(std::string name, std::chrono::milliseconds interval, std::function<void()> work);
  /// Waits for the call in progress.
  ~RepeatingThread();
  RepeatingThread(const RepeatingThread&) = delete;
  RepeatingThread& operator=(const RepeatingThread&) = delete;

  /// Any thread, also `work` itself.
  void wake();

 private:
  void loop();

  const std::string name_;
  const std::chrono::milliseconds interval_;
  const std::function<void()> work_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false, stopping_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace babelring
