#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace babelring {

/// The content of a lock file: the process that holds the lock.
struct LockHolder {
  std::int64_t pid = 0;
  std::string host;  // empty: the file is absent or invalid
};

/// Locks a run's folder through its file run.lock, so that only one process trains there. Uses flock(2), so the lock
/// ends with the process. Network file systems vary in their support of locks (`nmt doctor --runs` tests it); without
/// support, logs a warning and locks nothing.
class FolderLock {
 public:
  struct Options {
    bool take_over = false;                // if another process holds the lock, replace the lock file
    std::chrono::milliseconds patience{};  // how long to wait for the holder to release the lock
  };

  /// Throws UsageFailure naming the holder if the folder is in use, Failure if the file cannot be made.
  FolderLock(const std::filesystem::path& folder, const Options& options);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  /// False once another process has taken over.
  bool held() const;

 private:
  bool try_lock();
  void replace();
  void write_holder() const;

  std::filesystem::path file_;
  int descriptor_ = -1;  // negative: the file system has no locks
};

/// Reads the lock file of a run's folder. The host is empty if the file is absent or invalid.
LockHolder read_lock_holder(const std::filesystem::path& folder);

}  // namespace babelring
