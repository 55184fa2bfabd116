#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace babelring::api {

/// Memory of this process in bytes.
struct MemoryUse {
  std::size_t resident = 0;
  std::size_t allocated = 0;  // by malloc and new, and not freed
  static MemoryUse now();
  std::size_t excess() const { return resident > allocated ? resident - allocated : 0; }
};

/// Decides when it is worth to give freed memory back to the system: when what is resident but not allocated has grown
/// by more than `keep` bytes over the least that was seen since the last time.
class TrimRule {
 public:
  explicit TrimRule(std::size_t keep) : keep_(keep) {}
  bool is_due(const MemoryUse& use);
  /// What cannot be given back is not tried again.
  void trimmed(const MemoryUse& use) { least_ = use.excess(); }

 private:
  std::size_t keep_, least_ = SIZE_MAX;
};

/// At every interval frees what is kept for later requests, by `release`, and calls malloc_trim(), if that is due, so
/// that memory returns after a burst of requests. glibc by itself returns only the top of each of its arenas.
class MemoryTrimmer {
 public:
  explicit MemoryTrimmer(std::function<void()> release, std::chrono::milliseconds interval = std::chrono::seconds(10),
                         std::size_t keep = std::size_t{16} << 20);
  ~MemoryTrimmer();
  MemoryTrimmer(const MemoryTrimmer&) = delete;
  MemoryTrimmer& operator=(const MemoryTrimmer&) = delete;

 private:
  void loop();

  const std::function<void()> release_;
  const std::chrono::milliseconds interval_;
  TrimRule rule_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace babelring::api
