#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace babelring {

/// Wakes one sleeping thread from another, of this process or, if the bell lies in memory they share, of another one.
/// Zeroed memory is a bell.
class Bell {
 public:
  /// How often it has rung. Read it before looking for work, and hand it to wait() if there was none: what rang in
  /// between is not missed.
  std::uint32_t count() const { return rung_.load(); }
  /// Never blocks.
  void ring();
  /// Sleeps until it has rung more often than `seen`, at most for `timeout`; may return early. For one thread.
  void wait(std::uint32_t seen, std::chrono::microseconds timeout);

 private:
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free, "the kernel sleeps on the bare word");
  std::atomic<std::uint32_t> rung_{0}, sleeping_{0};
};

}  // namespace babelring
