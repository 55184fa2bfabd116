#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace babelring {

/// Something that a thread did, with its times.
struct LoggedSpan {
  std::string thread;    // "main", "data", "reporter"
  std::string category;  // "phase", "data", "batch", "validation", "checkpoint", "records"
  std::string name;
  SteadyClock::time_point begin, end;
};

/// Collects the spans of several threads while it records. Otherwise logging costs one load. Thread-safe.
class SpanLog {
 public:
  /// Starts or ends the recording, and drops the spans so far.
  void record(bool on) {
    const std::lock_guard lock(mutex_);
    recording_ = on;
    spans_.clear();
  }
  bool recording() const { return recording_.load(std::memory_order_relaxed); }
  /// Ignored while it does not record.
  void add(LoggedSpan span) {
    const std::lock_guard lock(mutex_);
    if (recording_) spans_.push_back(std::move(span));
  }
  /// Returns and forgets the spans, in the order in which they were added.
  std::vector<LoggedSpan> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(spans_, {});
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> recording_{false};
  std::vector<LoggedSpan> spans_;
};

/// Logs the time of a scope. Its name is also its category.
class SpanScope {
 public:
  /// `log` may be null. The texts must outlive the scope.
  SpanScope(SpanLog* log, const char* thread, const char* name)
      : log_(log != nullptr && log->recording() ? log : nullptr), thread_(thread), name_(name) {
    if (log_ != nullptr) begin_ = SteadyClock::now();
  }
  ~SpanScope() {
    if (log_ != nullptr) log_->add({thread_, name_, name_, begin_, SteadyClock::now()});
  }
  SpanScope(const SpanScope&) = delete;
  SpanScope& operator=(const SpanScope&) = delete;

 private:
  SpanLog* log_;
  const char* thread_;
  const char* name_;
  SteadyClock::time_point begin_{};
};

}  // namespace babelring
