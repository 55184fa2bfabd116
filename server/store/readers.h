#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "server/store/metrics.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// A read-only connection with its layout cache.
struct Reader {
  explicit Reader(const std::filesystem::path& file) : database(file, Database::Mode::reader), layouts(database) {}
  Database database;
  KeyLayouts layouts;
  SteadyClock::time_point given_back;  // last return to the pool
};

/// A pool of read-only connections. Each is leased to one caller at a time. Thread-safe.
class Readers {
 public:
  /// Opens up to `max_open` connections on demand. The writer must have opened the file before, because it creates the
  /// WAL index.
  Readers(std::filesystem::path file, std::size_t max_open,
          std::chrono::milliseconds max_wait = std::chrono::seconds(5))
      : file_(std::move(file)), max_open_(max_open), max_wait_(max_wait) {}

  /// Holds a connection and returns it to the pool on destruction.
  class Lease {
   public:
    Lease(Readers& pool, std::unique_ptr<Reader> reader) : pool_(pool), reader_(std::move(reader)) {}
    ~Lease() { pool_.give_back(std::move(reader_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Reader* operator->() { return reader_.get(); }
    Reader& operator*() { return *reader_; }

   private:
    Readers& pool_;
    std::unique_ptr<Reader> reader_;
  };

  /// Waits for a free connection. Throws Busy after `max_wait`, or SqlFailure if the file cannot be opened. If
  /// `abandoned` is set, statements of the lease fail soon after it returns true.
  Lease lease(std::function<bool()> abandoned = {});

  /// Closes connections that have been idle for `age`, which frees their caches.
  void close_unused(std::chrono::milliseconds age);
  /// Number of open connections.
  std::size_t count() const;

 private:
  void give_back(std::unique_ptr<Reader> reader);

  std::filesystem::path file_;
  std::size_t max_open_, open_ = 0;
  std::chrono::milliseconds max_wait_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Reader>> idle_;  // ordered by given_back
};

}  // namespace babelring::store
