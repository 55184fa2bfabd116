#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "server/store/counts.h"
#include "server/store/ingest.h"

namespace babelring::store {

/// The one connection that writes, and its thread. Batches that wait together are committed together, so that one fsync
/// serves them all; each is acknowledged only after that commit.
class Writer {
 public:
  /// Called on the writer's thread, once for each accepted submit(). Must be quick and must not throw.
  using Acknowledge = std::function<void(const Batch&, const IngestResult&)>;

  /// Changes the tables within one transaction.
  using Change = std::function<void(Database&)>;

  /// Opens the database, migrates it and starts the thread. `check`: verify the file first, as after an unclean stop.
  /// Throws Failure.
  Writer(const std::filesystem::path& file, bool check);
  /// Commits everything submitted, checkpoints the WAL and closes the database.
  ~Writer();

  /// False, and `acknowledge` is never called, if too much is waiting: the sender should try again later.
  bool submit(Batch batch, Acknowledge acknowledge);
  /// Runs `change` on the writer's thread in a transaction of its own and waits for the commit. Throws what `change`
  /// throws, SqlFailure, or Busy; nothing is changed then. Must not be called on the writer's thread.
  void execute(Change change);

  /// Grows with every commit, before anyone is told of it.
  std::uint64_t revision() const { return revision_; }

  WriterCounts counts() const { return counters_.read(); }

  /// Stops all writing: from now on submit() returns false and execute() throws Busy with the reason.
  void refuse_all(const std::string& reason);
  bool refuses_all() const;

  /// The queue is at least half full: the server is not ready.
  bool crowded() const;

  static constexpr std::size_t most_waiting = 256;  // batches and changes
  /// Bound on the memory of batches that wait or are being written, however slow the disk is.
  static constexpr std::size_t most_waiting_bytes = std::size_t{64} << 20;

 private:
  struct Job {
    Batch batch;
    Acknowledge acknowledge;
    IngestResult result;
    std::size_t bytes = 0;
  };
  struct Task {
    Change change;
    std::promise<void> done;
  };
  void loop();
  /// Takes the jobs at the head of the queue; none if a task stands there. Requires mutex_.
  std::vector<Job> take_jobs();
  void carry_out(Task& task);
  void commit(std::vector<Job>& jobs);
  /// Tells the senders and releases their batches.
  void acknowledge(std::vector<Job> jobs);
  bool try_commit(std::vector<Job>& jobs, std::size_t first, std::size_t count);

  Database database_;
  Ingest ingest_;
  WriterCounters counters_;
  std::atomic<std::uint64_t> revision_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::variant<Job, Task>> queue_;
  std::size_t bytes_ = 0;  // of jobs not yet acknowledged
  bool stopping_ = false;
  std::string refusal_;  // why nothing is written any more
  std::thread thread_;   // last: starts when everything else is there
};

}  // namespace babelring::store
