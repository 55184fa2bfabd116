#pragma once

#include <atomic>
#include <cstdint>

namespace babelring {

/// Requests for a checkpoint after the current update, made by another thread of rank 0. They are numbered, so a
/// repeated request is carried out once. Ranks agree on the update as for a stop request.
class CheckpointRequest {
 public:
  /// From any thread. A number that was already carried out has no effect.
  void request(std::int64_t number) {
    if (number > wanted_.load(std::memory_order_relaxed)) wanted_.store(number, std::memory_order_relaxed);
  }
  /// The newest request. The trainer reads it before it votes, and reports that number as carried out afterwards.
  std::int64_t wanted() const { return wanted_.load(std::memory_order_relaxed); }
  /// The newest request that was carried out.
  std::int64_t done() const { return done_.load(std::memory_order_relaxed); }
  void carried_out(std::int64_t number) { done_.store(number, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> wanted_{0}, done_{0};
};

}  // namespace babelring
