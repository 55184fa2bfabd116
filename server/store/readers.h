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
#include "server/store/layouts.h"
#include "server/store/sqlite.h"

namespace babelring::store {

/// A read-only connection and its cache of layouts.
struct Reader {
  explicit Reader(const std::filesystem::path& file) : database(file, Database::Mode::reader), layouts(database) {}
  Database database;
  Layouts layouts;
  SteadyClock::time_point given_back;  // the last time
};

/// A pool of read-only connections, each lent to one caller at a time.
class Readers {
 public:
  /// Opens at most `most` connections, lazily. The writer must have opened the file already: it creates the WAL index.
  Readers(std::filesystem::path file, std::size_t most, std::chrono::milliseconds max_wait = std::chrono::seconds(5))
      : file_(std::move(file)), most_(most), max_wait_(max_wait) {}

  /// Owns a connection until it goes out of scope.
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

  /// Blocks while all are lent; throws Busy if that lasts longer than `max_wait`. Throws SqlFailure if the file cannot
  /// be opened. While it is lent, statements fail soon after `abandoned`, unless it is empty, says that nobody waits
  /// for their rows any more.
  Lease lease(std::function<bool()> abandoned = {});

  /// Closes connections that nobody has used for `age`, and frees their caches. Others are opened when they are needed.
  void close_unused(std::chrono::milliseconds age);
  /// Connections that are open.
  std::size_t count() const;

 private:
  void give_back(std::unique_ptr<Reader> reader);

  std::filesystem::path file_;
  std::size_t most_, made_ = 0;
  std::chrono::milliseconds max_wait_;
  mutable std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Reader>> idle_;  // in the order of given_back
};

}  // namespace babelring::store
