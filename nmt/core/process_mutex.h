#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <string_view>

namespace babelring {

/// A lock in memory that processes of one machine share. If its holder dies, the next process that waits gets it, so
/// what it protects must be marked as incomplete while it is being changed. One process constructs it before the others
/// see the memory; it needs no destructor.
class ProcessMutex {
 public:
  ProcessMutex();
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;

  /// Waits at most `limit`. Then throws Failure, which names `purpose` and the process that holds the lock.
  void lock(std::chrono::milliseconds limit, std::string_view purpose);
  void unlock();

 private:
  pthread_mutex_t mutex_;
  std::atomic<pid_t> holder_{0};
};

/// Holds a ProcessMutex.
class ProcessLock {
 public:
  ProcessLock(ProcessMutex& mutex, std::chrono::milliseconds limit, std::string_view purpose) : mutex_(mutex) {
    mutex_.lock(limit, purpose);
  }
  ~ProcessLock() { mutex_.unlock(); }
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

 private:
  ProcessMutex& mutex_;
};

}  // namespace babelring
