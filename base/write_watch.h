#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/repeating_thread.h"

namespace babelring {

/// Logs a warning when a call that writes to a file system takes long, "NAME: a write has taken 10 s", and a line when
/// it has returned. A hung network file system would otherwise stop a program silently. Watches the calls of one
/// thread from another one.
class WriteWatch {
 public:
  explicit WriteWatch(std::string name, std::chrono::milliseconds late_after = std::chrono::seconds(10));
  ~WriteWatch();
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  /// True while a call takes longer than the patience. Any thread.
  bool late() const;

  /// While it lives, the WatchedCalls of this thread belong to the watch, which must outlive it.
  class Scope {
   public:
    explicit Scope(WriteWatch& watch);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    WriteWatch* before_;
  };

 private:
  friend class WatchedCall;
  void look();

  const std::string name_;
  const std::chrono::milliseconds patience_;
  std::atomic<SteadyClock::rep> began_{0};  // of the call in progress; 0: none
  SteadyClock::rep reported_ = 0;           // began_ of the call that was logged; 0: none, or its end was logged, too
  std::optional<RepeatingThread> looker_;   // last: uses the members above
};

/// A call that writes, from construction to destruction. Nothing outside of a WriteWatch::Scope and inside of another
/// WatchedCall.
class WatchedCall {
 public:
  WatchedCall();
  ~WatchedCall();
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  WriteWatch* watch_;
};

}  // namespace babelring
