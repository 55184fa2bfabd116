#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"

namespace babelring {

/// One collective in progress, driven only by the communication thread. No function may block except abort(). All may
/// throw CommError except abort().
class Collective {
 public:
  enum class Progress { none, some, done };

  virtual ~Collective() = default;
  /// Posts the first messages. Called once, before advance().
  virtual void begin() = 0;
  /// Makes progress without blocking. Called repeatedly until it returns done, then never again.
  virtual Progress advance() = 0;
  /// Description for messages, such as "all-reduce of 26.2 MB".
  virtual std::string name() const = 0;
  /// Payload bytes; counts towards CommOptions::in_flight_bytes.
  virtual std::int64_t bytes() const = 0;
  /// Bytes that it sums over the ranks, equal on all ranks; 0 if it is not an all-reduce.
  virtual std::int64_t payload_bytes() const { return bytes(); }
  struct Times {
    SteadyClock::time_point begun, done;
  };
  /// When a completed collective ran, if something other than the communication thread measured it.
  virtual std::optional<Times> measured_times() const { return std::nullopt; }
  /// The rank it waits for; -1 if unknown.
  virtual int waiting_for() const { return -1; }
  /// True if peers notify this rank's EventCount when they make progress. Otherwise the communication thread must poll.
  virtual bool notified() const { return false; }

  /// The transport's error. A collective with an error fails with its message, after the peers have been queried to
  /// find a lost one.
  virtual Status status() const { return {}; }
  /// Aborts the operation, including work that may hang outside this process. Called when the collective has been
  /// abandoned.
  virtual void abort() noexcept {}

  /// Keeps `memory` alive as long as this object. If the call that started a collective ends by an exception, MPI may
  /// still read or write its memory.
  void keep(std::shared_ptr<const void> memory) { memory_ = std::move(memory); }

 private:
  std::shared_ptr<const void> memory_;
};

/// Tracks operations that run elsewhere, on GPUs, as if they were the communicator's own collectives: they also fail on
/// a lost peer, on the deadline and on fail_fast(). See Communicator::tracker().
class CollectiveTracker {
 public:
  virtual ~CollectiveTracker() = default;
  /// Every rank must follow the same operations in the same order, from the thread that uses the communicator.
  virtual void follow(std::unique_ptr<Collective> operation) = 0;
};

}  // namespace babelring
