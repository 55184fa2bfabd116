#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace babelring {

/// What whoever holds a run folder's lock has written into it.
struct LockHolder {
  std::int64_t pid = 0;
  std::string host;  // empty: the file says nothing readable
};

/// The lock of a run's folder, run.lock: one process at a time trains there. It is flock(2)'s, so it ends with its
/// process, however that ends. On a network file system it is as good as its locks are (`nmt doctor --runs` tries
/// them); where there are none, a warning says so and nothing is locked.
class FolderLock {
 public:
  struct Options {
    bool take_over = false;                // from a holder that does not let go: its lock is replaced by a new file
    std::chrono::milliseconds patience{};  // how long to wait for a holder that may be about to end
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

/// Empty host if the file is absent or unreadable.
LockHolder read_lock_holder(const std::filesystem::path& folder);

}  // namespace babelring
