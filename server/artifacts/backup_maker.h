#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "server/store/store.h"

namespace babelring::artifacts {

/// Makes copies of the database, one at a time, on its own thread. Thread-safe.
class BackupMaker {
 public:
  /// The store must outlive this object.
  explicit BackupMaker(store::Store& store) : store_(store) {}
  /// Abandons an unfinished backup.
  ~BackupMaker();
  BackupMaker(const BackupMaker&) = delete;
  BackupMaker& operator=(const BackupMaker&) = delete;

  /// The newest backup since the start of the process.
  struct Status {
    bool running = false;
    std::filesystem::path file;
    std::int64_t bytes = 0, started_ms = 0;  // started_ms 0: there was none
    std::optional<std::int64_t> finished_ms;
    std::string failure;  // empty: none
  };

  /// Starts a backup. Throws Problem 409 while one is running, 507 if the disk space does not suffice, and exceptions
  /// of `record_request`, which records the request before the backup starts.
  Status start(const std::function<void()>& record_request);
  Status status() const;

 private:
  void require_space() const;
  void make(const std::filesystem::path& file);

  store::Store& store_;
  mutable std::mutex mutex_;
  Status status_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace babelring::artifacts
