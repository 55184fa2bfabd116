#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace babelring {

/// A thread that calls `work` an `interval` after it began or after the last call has returned, and at once when it is
/// woken, until it is destroyed. An exception is logged as "NAME: what()"; the next call comes all the same.
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
