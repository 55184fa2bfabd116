#pragma once

#include <atomic>
#include <cstdint>

namespace babelring {

/// Wishes for a checkpoint after the current update, from another thread of rank 0. They are numbered, so that a wish
/// that is repeated is carried out once. Ranks agree on the update like on a stop request.
class CheckpointRequest {
 public:
  /// From any thread. Numbers that were carried out already mean nothing.
  void request(std::int64_t number) {
    if (number > wanted_.load(std::memory_order_relaxed)) wanted_.store(number, std::memory_order_relaxed);
  }
  /// The newest wish. The trainer notes it before it votes and answers for it afterwards.
  std::int64_t wanted() const { return wanted_.load(std::memory_order_relaxed); }
  bool open() const { return wanted() > done(); }
  /// The newest wish that was carried out.
  std::int64_t done() const { return done_.load(std::memory_order_relaxed); }
  void carried_out(std::int64_t number) { done_.store(number, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> wanted_{0}, done_{0};
};

}  // namespace babelring
