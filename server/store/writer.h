#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/store/ingest.h"
#include "server/store/metrics.h"

namespace babelring::store {

/// A queue that serves several owners in turn: pop() takes the oldest item of the next owner. Not thread-safe.
template <class Item>
class Turns {
 public:
  void push(const std::string& owner, Item item) {
    std::deque<Item>& items = items_[owner];
    if (items.empty()) owners_.push_back(owner);
    items.push_back(std::move(item));
    ++size_;
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  std::size_t size_of(const std::string& owner) const {
    const auto found = items_.find(owner);
    return found == items_.end() ? 0 : found->second.size();
  }

  /// The queue must not be empty.
  Item pop() {
    const auto found = items_.find(owners_.front());
    Item item = std::move(found->second.front());
    found->second.pop_front();
    --size_;
    if (found->second.empty()) {
      items_.erase(found);
    } else {
      owners_.push_back(std::move(owners_.front()));
    }
    owners_.pop_front();
    return item;
  }

 private:
  std::map<std::string, std::deque<Item>> items_;  // no empty queues
  std::deque<std::string> owners_;                 // owners with items, in the order of their turns
  std::size_t size_ = 0;
};

/// Counters of the writer since the server started.
struct WriterCounts {
  /// Upper bounds of the `commits` histogram in seconds. Its last bucket counts longer commits.
  static constexpr std::array<double, 8> commit_bounds_s = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5};
  std::array<std::uint64_t, 9> commits{};
  double commit_seconds = 0;
  std::uint64_t batches = 0, records = 0, duplicates = 0;
  std::uint64_t points = 0;  // numeric values in step records
  std::uint64_t unknown_members = 0;
  std::uint64_t refused = 0, failed = 0;
};

/// Collects WriterCounts. Updated by the writer's thread; read() may be called from any thread.
class WriterCounters {
 public:
  void record_commit(double seconds);
  void record_batch(const Batch& batch, const IngestResult& result);
  void record_failure(bool refused);
  WriterCounts read() const;

 private:
  const std::uint64_t values_per_step_ = stored_metrics(StepRecord{}).size();  // without those of maps
  mutable std::mutex mutex_;
  WriterCounts counts_;
};

/// The only connection that writes, and its thread. Batches that wait together are committed together, with one fsync,
/// and acknowledged after that commit. Runs take turns, and a commit has a maximum number of records, so that large
/// batches of one run delay another run by at most one commit. Batches of one run keep their order. Changes and commits
/// of batches alternate.
class Writer {
 public:
  /// Called on the writer's thread, once for each accepted submit(). Must be quick and must not throw.
  using Acknowledge = std::function<void(const Batch&, const IngestResult&)>;

  /// Changes the tables within one transaction.
  using Change = std::function<void(Database&)>;

  /// Opens the database, migrates it and starts the thread. `check`: verify the file first, after an unclean shutdown.
  /// Throws Failure.
  Writer(const std::filesystem::path& file, bool check);
  /// Commits everything submitted, checkpoints the WAL and closes the database.
  ~Writer();

  /// Queues a batch. Returns false, and never calls `acknowledge`, if too many batches wait, of this run or of all: the
  /// sender should retry later.
  bool submit(Batch batch, Acknowledge acknowledge);
  /// Runs `change` on the writer's thread in a separate transaction and waits for the commit. Throws SqlFailure, Busy
  /// or any exception of `change`; nothing is changed then. Must not be called on the writer's thread.
  void execute(Change change);

  /// A counter that grows with every commit, before the commit is acknowledged.
  std::uint64_t revision() const { return revision_; }

  WriterCounts counts() const { return counters_.read(); }

  /// Stops all writing: from now on submit() returns false and execute() throws Busy with the reason.
  void refuse_all(const std::string& reason);
  bool refuses_all() const;

  /// True if the queue is at least half full; the server is not ready then.
  bool crowded() const;

  static constexpr std::size_t max_waiting = 512;         // batches and changes
  static constexpr std::size_t max_waiting_of_run = 256;  // batches of one run
  /// Bounds on the memory of batches that wait or are being written.
  static constexpr std::size_t max_waiting_bytes = std::size_t{64} << 20,
                               max_waiting_bytes_of_run = max_waiting_bytes / 2;
  /// Records per commit. The batch that reaches this number is the last of its commit.
  static constexpr std::size_t max_records_together = 2'000;

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
  /// True if a batch of this size may wait. Requires mutex_.
  bool has_room(const std::string& run, std::size_t bytes) const;
  std::size_t waiting() const { return jobs_.size() + tasks_.size(); }  // requires mutex_
  /// Takes the jobs of the next commit. Requires mutex_.
  std::vector<Job> take_jobs();
  void perform(Task& task);
  void commit(std::vector<Job>& jobs);
  /// Calls the senders back and releases their batches.
  void acknowledge(std::vector<Job> jobs);
  bool try_commit(std::vector<Job>& jobs, std::size_t first, std::size_t count);

  Database database_;
  Ingest ingest_;
  WriterCounters counters_;
  std::atomic<std::uint64_t> revision_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  Turns<Job> jobs_;  // by run
  std::deque<Task> tasks_;
  std::size_t bytes_ = 0;  // of jobs not yet acknowledged
  std::map<std::string, std::size_t> bytes_of_run_;
  bool stopping_ = false;
  std::string refusal_;  // reason to refuse all writes; empty: writes are accepted
  std::thread thread_;   // last member: it uses all the others
};

}  // namespace babelring::store
