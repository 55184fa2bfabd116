#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

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

/// Requests a checkpoint after the current update, from another thread of rank 0. Requests are numbered, so a repeated
/// request is executed once. All ranks agree on the update, as for a StopRequest. Thread-safe.
class CheckpointRequest {
 public:
  /// A number that was already requested or executed has no effect.
  void request(std::int64_t number) {
    if (number > wanted_.load(std::memory_order_relaxed)) wanted_.store(number, std::memory_order_relaxed);
  }
  /// The newest requested number. The trainer reads it before the ranks vote and later passes it to carried_out().
  std::int64_t wanted() const { return wanted_.load(std::memory_order_relaxed); }
  /// The newest executed request.
  std::int64_t done() const { return done_.load(std::memory_order_relaxed); }
  void carried_out(std::int64_t number) { done_.store(number, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> wanted_{0}, done_{0};
};

inline constexpr std::int64_t max_traced_updates = 20;  // of one timeline

/// The content of a TraceRequest.
struct TraceOrder {
  std::int64_t number = 0;
  std::int64_t updates = 0;  // how many the timeline shows
  bool ops = true;           // see TraceConfig
};

/// Requests a timeline of the next updates, from another thread of rank 0. Requests are numbered, so a repeated request
/// is executed once. All ranks agree on the first update, as for a CheckpointRequest. Thread-safe.
class TraceRequest {
 public:
  /// An order whose number was already requested or executed has no effect. A newer order replaces an older one.
  void request(const TraceOrder& order) {
    const std::lock_guard lock(mutex_);
    if (order.number > newest_.number) newest_ = order;
  }
  /// The newest order, unless it is executed.
  std::optional<TraceOrder> wanted() const {
    const std::lock_guard lock(mutex_);
    return newest_.number > done_ ? std::optional(newest_) : std::nullopt;
  }
  /// The newest executed order.
  std::int64_t done() const {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void carried_out(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    done_ = number;
  }

 private:
  mutable std::mutex mutex_;
  TraceOrder newest_;
  std::int64_t done_ = 0;
};

}  // namespace babelring
