#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "server/translate/job_queue.h"
#include "server/translate/nmt_process.h"

namespace babelring::translate {

struct PoolOptions {
  std::filesystem::path program;              // `nmt`; empty: unavailable
  std::size_t max_helpers = 2;                // max number of processes, one per checkpoint or ensemble in use
  std::string precision = "f32";              // of matmuls: f32, bf16 or int8
  JobQueue::Limits queue;                     // of waiting requests
  std::chrono::milliseconds deadline{30000};  // per request, from arrival; includes queueing and loading
  std::chrono::milliseconds batch{1000};      // about how long a batch may take, unless it has a single line
  std::chrono::milliseconds idle{300000};     // an idle process is ended after this time
  std::int64_t memory_mb = 8192;              // address space limit of a process
  int threads = 2;                            // per process; 0: all processors
};

/// Translates with checkpoints. Each checkpoint, or ensemble of some, runs in its own process (`nmt translate
/// --serve`), so a damaged file or model can crash only that process. Processes start on demand. They end when idle or
/// when another checkpoint needs the slot. A process translates lines of all waiting requests together, a batch at a
/// time. If it crashes, each unanswered request of its batch is tried once more by itself. Thread-safe.
class Pool {
 public:
  explicit Pool(PoolOptions options);
  /// Ends all processes. Queued and running requests end as `busy`.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Translates with `models`, which `checkpoint` identifies. `request` has the members of a request line except `id`,
  /// `stream` and `first`; its `text` is an array of at least one string. `done` is called exactly once, from any
  /// thread, possibly before this returns. Clients are served in turn. Once the client has disconnected, the request
  /// ends as `busy`; a running batch continues unless nobody waits for it, another request does, and it has taken
  /// longer than loading the checkpoint again would.
  using Done = std::function<void(JobOutcome)>;
  void translate(std::string checkpoint, Models models, json::object request, Done done, Client client = {});

  /// Number of requests with lines in the queue, and with lines in a batch.
  struct Load {
    std::size_t waiting = 0, running = 0;
  };
  Load load() const;

  struct Loaded {
    std::string checkpoint;
    pid_t pid = 0;
    bool busy = false;
  };
  /// The current processes.
  std::vector<Loaded> loaded() const;

 private:
  /// A slot for one process, and the thread that communicates with it.
  struct Slot {
    std::string checkpoint;  // loaded, being loaded, or empty
    std::unique_ptr<NmtProcess> process;
    pid_t pid = 0;
    std::size_t running = 0;  // requests in its batch
    SteadyClock::time_point last_used;
    std::thread thread;
    // These describe the process; only the slot's thread uses them:
    std::int64_t last_id = 0;
    SteadyClock::duration load_time{};
    double budget = JobQueue::full_batch;  // cost that it translates in PoolOptions::batch
  };
  struct Running;
  struct Ending {
    std::shared_ptr<Job> job;
    JobOutcome outcome;
  };
  using Endings = std::vector<Ending>;

  void serve(Slot& slot);
  /// Records a job's outcome and calls its done(), unless it has ended before. Requires that mutex_ is not held.
  void end(Ending ending);
  /// Ends the waiting jobs whose clients have left or whose deadline has passed. Requires that mutex_ is not held.
  void end_dead();
  // These require mutex_:
  Batch take_batch(Slot& slot);
  bool is_next_to_load(const Slot& slot) const;
  void wait_for_work(Slot& slot, std::unique_lock<std::mutex>& lock);
  void drop_process(Slot& slot);
  /// The ends of the jobs of a batch that are not answered. After a crash, jobs that shared the batch are put back.
  Endings fail_batch(const Running& running, const JobOutcome& outcome);

  /// Translates a batch. Ends its jobs, except for those returned: they end once the slot is free. The slot's process
  /// is dropped unless all goes well.
  Endings translate_batch(Slot& slot, Running& running);
  NmtProcess::LineStatus load_process(Slot& slot, Running& running);
  NmtProcess::LineStatus send(Slot& slot, Running& running);
  /// The process's next line. LineStatus::abandoned: nobody waits for the batch, but another request does.
  NmtProcess::Line receive(Slot& slot, Running& running);
  /// Ends jobs whose deadline has passed. True if a client waits for one of the others.
  bool is_wanted(const Running& running);
  /// Handles a line of the process. False if it was not expected. `last` receives the end of the batch's last job.
  bool take_line(const std::string& text, Running& running, Endings& last);
  JobOutcome kill_process(Slot& slot, NmtProcess::LineStatus status, const std::string& doing);

  const PoolOptions options_;
  mutable std::mutex mutex_;  // guards the members below, and of jobs `taken`, `alone` and `ended`
  std::condition_variable changed_;
  JobQueue queue_;
  std::vector<std::unique_ptr<Slot>> slots_;
  bool ending_ = false;
};

}  // namespace babelring::translate
