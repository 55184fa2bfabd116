#pragma once

#include <atomic>

namespace babelring {

/// Requests the end of training after the current update, from another thread: the signal handler or the heartbeat. The
/// ranks agree on it, so all stop at the same update. Thread-safe.
class StopRequest {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  /// Makes the stop skip its final checkpoint.
  void request_without_checkpoint() { without_checkpoint_.store(true, std::memory_order_relaxed); }
  bool without_checkpoint() const { return without_checkpoint_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false}, without_checkpoint_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace babelring
