#include "server/api/memory_trimmer.h"

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

namespace babelring::api {

MemoryUse MemoryUse::now() {
  std::ifstream statm("/proc/self/statm");
  std::size_t mapped = 0, resident = 0;
  statm >> mapped >> resident;
  const auto heap = mallinfo2();
  return {resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), heap.uordblks + heap.hblkhd};
}

bool TrimRule::is_due(const MemoryUse& use) {
  least_ = std::min(least_, use.excess());
  return use.excess() > least_ + keep_;
}

MemoryTrimmer::MemoryTrimmer(std::function<void()> release, std::chrono::milliseconds interval, std::size_t keep)
    : release_(std::move(release)), interval_(interval), rule_(keep) {
  rule_.trimmed(MemoryUse::now());  // growth counts from here, however late the thread begins
  thread_ = std::thread([this] { loop(); });
}

MemoryTrimmer::~MemoryTrimmer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

void MemoryTrimmer::loop() {
  std::unique_lock lock(mutex_);
  do {
    release_();
    const MemoryUse before = MemoryUse::now();
    if (!rule_.is_due(before)) continue;
    const Stopwatch watch;
    malloc_trim(0);
    const double ms = watch.elapsed_ms();
    const MemoryUse after = MemoryUse::now();
    rule_.trimmed(after);
    spdlog::debug("memory: {} bytes given back to the system in {:.1f} ms",
                  before.resident - std::min(before.resident, after.resident), ms);
  } while (!stopped_.wait_for(lock, interval_, [this] { return stopping_; }));
}

}  // namespace babelring::api
