#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nmt/core/buffer.h"

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

/// Zeroed memory shared by processes on one machine, backed by an anonymous file (memfd) that is freed with its last
/// user. It does not count against /dev/shm, which is small in containers.
class SharedFile {
 public:
  /// Returns null if the system does not support it.
  static std::shared_ptr<SharedFile> create(std::size_t bytes);
  /// Memory of this process alone, which nobody is invited to. Throws Failure if there are no addresses for it.
  static std::shared_ptr<SharedFile> create_private(std::size_t bytes);
  /// Opens another process's file by its invitation(). Returns null if that process is on another machine or belongs to
  /// another user.
  static std::shared_ptr<SharedFile> open(const std::string& invitation);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// A text that open() accepts in another process; empty for private memory. Valid while this object exists.
  std::string invitation() const;
  /// Allocates the range now instead of at first use, on the caller's NUMA node. Returns false if memory is short.
  /// Private memory is always allocated at first use.
  bool allocate(std::size_t offset, std::size_t bytes) const;
  /// The same, with huge pages for the whole huge pages in the range, if available. That takes several times as long.
  bool reserve(std::size_t offset, std::size_t bytes) const;
  /// Gives the whole pages in the range back to the system. They are zero afterwards, for all users, or keep their
  /// bytes if the system does not support it.
  void release(std::size_t offset, std::size_t bytes) const;
  /// Aligned to `huge_page`.
  char* data() const { return mapping_ + header_bytes; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t header_bytes = huge_page;  // keeps data() aligned; holds only the token
  SharedFile(int descriptor, char* mapping, std::size_t bytes)
      : descriptor_(descriptor), mapping_(mapping), bytes_(bytes) {}
  static std::shared_ptr<SharedFile> map(int descriptor, std::size_t bytes);
  std::uint64_t& token() const { return *reinterpret_cast<std::uint64_t*>(mapping_); }

  int descriptor_;
  char* mapping_;
  std::size_t bytes_;
};

}  // namespace babelring
