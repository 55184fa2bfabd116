#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "server/translate/nmt_process.h"

namespace babelring::translate {

struct PoolOptions {
  std::filesystem::path program;              // `nmt`; empty: unavailable
  std::size_t max_helpers = 2;                // max number of processes, one per checkpoint in use
  std::size_t queue = 16;                     // max queued requests
  std::size_t queue_an_owner = 8;             // max queued requests per client
  std::chrono::milliseconds deadline{30000};  // per request, from arrival; includes queueing and loading
  std::chrono::milliseconds idle{300000};     // an idle process is ended after this time
  std::int64_t memory_mb = 8192;              // address space limit of a process
  int threads = 2;                            // per process; 0: all processors
};

struct JobOutcome {
  enum class Status {
    done,
    refused,      // invalid request; code and detail come from the translator
    unavailable,  // no translation program
    busy,         // the queue is full, or the request waited too long
    late,         // the translator exceeded the deadline and was killed
    damaged,      // the checkpoint cannot be loaded
    crashed,      // the translator ended without a response
  };
  Status status = Status::done;
  json::object answer = {};  // if done; see docs/formats.md
  std::string code = {};     // if refused: bad_request, too_long
  std::string detail = {};   // one line, unless done
};

/// The client of a translation request.
struct Client {
  std::string owner = {};                // identifies the client for limits and fairness; empty: not counted
  std::function<bool()> abandoned = {};  // true once the client has disconnected; may be empty
  bool left() const { return abandoned && abandoned(); }
};

/// Translates with checkpoints. Each checkpoint runs in its own process (`nmt translate --serve`), so a damaged file or
/// model can crash only that process. Processes start on demand. They end when idle or when another checkpoint needs
/// the slot. Thread-safe.
class Pool {
 public:
  explicit Pool(PoolOptions options);
  /// Ends all processes. Queued and running requests end as `busy`.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Translates with the checkpoint in `folder`. `request` has the members of a request line except `id`. `done` is
  /// called exactly once, from any thread, possibly before this returns. Clients are served in turn. Once the client
  /// has disconnected, the request ends as `busy`; a running request continues unless another request waits.
  using Done = std::function<void(JobOutcome)>;
  void translate(std::string checkpoint, std::filesystem::path folder, json::object request, Done done,
                 Client client = {});

  /// Number of queued and running requests.
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
  struct Job {
    std::string checkpoint;
    std::filesystem::path folder;
    json::object request;
    Done done;
    SteadyClock::time_point deadline;
    Client client;
  };
  /// A slot for one process, and the thread that communicates with it.
  struct Slot {
    std::string checkpoint;  // loaded, being loaded, or empty
    std::unique_ptr<NmtProcess> process;
    pid_t pid = 0;
    bool busy = false;
    SteadyClock::time_point last_used;
    std::int64_t last_id = 0;
    std::thread thread;
  };
  void serve(Slot& slot);
  // These require mutex_:
  /// Checks that the owner may queue another request.
  Status check_room(const std::string& owner) const;
  /// Removes the requests of disconnected clients from the queue and returns them.
  std::list<Job> take_abandoned();
  std::optional<Job> take_job(Slot& slot);
  bool is_next_to_load(const Slot& slot) const;
  /// Processes one request. The slot's helper is dropped unless the request succeeds.
  JobOutcome answer(Slot& slot, const Job& job);
  JobOutcome load(Slot& slot, const Job& job);
  /// The process's next line. LineStatus::abandoned: the client has disconnected and another request waits.
  NmtProcess::Line receive(Slot& slot, const Job& job);
  JobOutcome confused(Slot& slot);
  JobOutcome failed(Slot& slot, NmtProcess::LineStatus status, const std::string& doing);
  void drop_process(Slot& slot);

  const PoolOptions options_;
  mutable std::mutex mutex_;  // guards the members below, except helpers: only the slot's thread uses them
  std::condition_variable changed_;
  std::list<Job> queue_;
  std::map<std::string, std::uint64_t> served_;  // by owner: turn in which its last request was served
  std::uint64_t turn_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;
  bool ending_ = false;
};

}  // namespace babelring::translate
