#pragma once

#include <atomic>

namespace babelring {

/// A request to end training after the current update, made by another thread: for a signal, or by a heartbeat's
/// answer. Ranks agree on it, so that all stop at the same update.
class StopRequest {
 public:
  /// From any thread.
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }
  /// The stop shall not write a checkpoint. From any thread.
  void request_without_checkpoint() { without_checkpoint_.store(true, std::memory_order_relaxed); }
  bool without_checkpoint() const { return without_checkpoint_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> requested_{false}, without_checkpoint_{false};
  static_assert(std::atomic<bool>::is_always_lock_free);
};

}  // namespace babelring
