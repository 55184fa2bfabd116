#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "base/records/library_versions.h"
#include "base/records/run_marks.h"
#include "nmt/data/manifest.h"
#include "worker/job.h"
#include "worker/spool.h"

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

/// Throws UsageFailure unless `run` is a valid run id and `attempt` is at least 1. All ranks are given the same values
/// and check them before their first collective, so no rank waits for a failed one.
void check_identity(const std::string& run, std::int64_t attempt);

/// The folder of one run on the host of rank 0: run.json (run id and attempt), run.lock, config.yaml, checkpoints/,
/// spool/. Holds the folder's lock for the lifetime of the object.
class RunFolder {
 public:
  struct Options {
    std::string run;           // id set by a server; empty: the folder's id, or a new one
    std::int64_t attempt = 0;  // set together with `run`
    FolderLock::Options lock;
    std::string server = {};  // RunFile::server
  };

  /// Creates and locks the folder. Call open() next. Throws UsageFailure if the folder is in use, Failure if it cannot
  /// be created.
  RunFolder(std::filesystem::path path, Options options);

  /// Begins the next attempt of the folder's run, or the attempt set by the server, and writes run.json.
  /// `earlier_attempts`: the max attempt number found on any host. `host` and `libraries`: those of rank 0. Throws
  /// Failure if the folder belongs to another run. Throws Fenced if this attempt is over: abandoned, or replaced by a
  /// newer one.
  void open(std::int64_t earlier_attempts, const std::string& host, const LibraryVersions& libraries = {});

  const std::string& run() const { return run_; }
  std::int64_t attempt() const { return attempt_; }

  /// Notes in run.json how training ended ("finished", "stopped" or "failed"), for those who only see that mpirun has
  /// ended. A file of a newer attempt stays as it is. A file that cannot be written is a warning.
  void note_end(const std::string& end, const std::string& detail) const;

  /// Throws Fenced if this attempt is over. Call before writing a file that a newer attempt would read.
  void require_current() const;

 private:
  void check_given(const std::optional<RunFile>& before) const;

  std::filesystem::path path_;
  Options options_;
  FolderLock lock_;
  std::string run_;
  std::int64_t attempt_ = 0;
};

/// Begins an attempt on all ranks: opens and locks `folder` on rank 0, checks that the folders of all hosts are
/// consistent, and writes run.json on every host. `libraries`: this rank's. Sets `opened` on rank 0. Collective. All
/// ranks throw the same UsageFailure if the folder is in use, if a host cannot write it or if the hosts are
/// inconsistent, and the same AgreedFailure if this attempt is over.
RankIdentity begin_attempt(const JobOptions& options, const std::filesystem::path& folder,
                           const LibraryVersions& libraries, Communicator& communicator,
                           std::optional<RunFolder>& opened);

/// LifecycleRecord::data: the size of a set of a prepared folder, and what `nmt prepare` dropped from it as report.json
/// in the folder tells. Throws Failure if the manifest has no such set.
json::object training_set_facts(const Manifest& manifest, const std::string& set);

}  // namespace babelring
