#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace babelring {

/// A futex-based event count. Works across processes when placed in shared memory; all-zero bytes are a valid initial
/// state. Any number of threads may notify; only one may wait.
class EventCount {
 public:
  /// The current count. Read it before checking for work, then pass it to wait() if there was none; a notification in
  /// between is not missed.
  std::uint32_t count() const { return count_.load(); }
  /// Increments the count and wakes the waiting thread. Never blocks.
  void notify();
  /// Sleeps until the count differs from `seen`, or for `timeout`. May return early. Only one thread may wait.
  void wait(std::uint32_t seen, std::chrono::microseconds timeout);

 private:
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "the futex waits on the bare word");
  std::atomic<std::uint32_t> count_{0}, sleeping_{0};
};

}  // namespace babelring
