#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "server/store/ingest.h"

namespace babelring::store {

/// The one connection that writes, with its thread. Batches that wait together are committed together, so one fsync
/// serves them all; each is acknowledged only after that commit.
class Writer {
 public:
  /// Called on the writer's thread, once for each accepted submit(). Must be quick and must not throw.
  using Acknowledge = std::function<void(const Batch&, const IngestResult&)>;

  /// Opens the database, migrates it, and starts the thread. `check` verifies the file first (after an unclean stop).
  /// Throws Failure.
  Writer(const std::filesystem::path& file, bool check);
  /// Commits what was submitted, checkpoints the WAL and closes.
  ~Writer();

  /// False, without calling `acknowledge`, when too much waits already: the sender shall come again later.
  bool submit(Batch batch, Acknowledge acknowledge);
  /// Batches that wait. Above half of `most_waiting` the server is not ready.
  std::size_t waiting() const;

  static constexpr std::size_t most_waiting = 256;

 private:
  struct Job {
    Batch batch;
    Acknowledge acknowledge;
    IngestResult result;
  };
  void loop();
  void commit(std::vector<Job>& jobs);
  bool try_commit(std::vector<Job>& jobs, std::size_t first, std::size_t count);

  Database database_;
  Ingest ingest_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> queue_;
  bool stopping_ = false;
  std::thread thread_;  // last: starts when everything else is there
};

}  // namespace babelring::store
