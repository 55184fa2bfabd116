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
#include "server/translate/helper.h"

namespace babelring::translate {

struct PoolOptions {
  std::filesystem::path program;              // `nmt`; empty: there is none
  std::size_t most_helpers = 2;               // processes at once, one for each checkpoint in use
  std::size_t queue = 16;                     // requests that wait
  std::size_t queue_an_owner = 8;             // of them of one client
  std::chrono::milliseconds deadline{30000};  // of a request, from its arrival: waiting and loading included
  std::chrono::milliseconds idle{300000};     // a process without requests is ended
  std::int64_t memory_mb = 8192;              // address space of a process
  int threads = 2;                            // of a process; 0: all processors
};

/// How a request ended.
enum class Verdict {
  done,
  refused,      // what was asked is wrong: code and detail of the translator
  unavailable,  // there is no program
  busy,         // too many wait, or it waited too long
  late,         // the translator did not answer in time, and was ended
  damaged,      // the checkpoint cannot be loaded
  crashed,      // the translator ended without an answer
};

struct Outcome {
  Verdict verdict = Verdict::done;
  json::object answer = {};  // of done: docs/formats.md
  std::string code = {};     // of refused: bad_request, too_long
  std::string detail = {};   // one line, where it is not done
};

/// Who asks for a translation.
struct Client {
  std::string owner = {};                // the same for all requests of a client; empty: nobody's, not counted
  std::function<bool()> abandoned = {};  // whether it has left; empty: it has not
  bool left() const { return abandoned && abandoned(); }
};

/// Translates with checkpoints, each in a process of its own (`nmt translate --serve`): what goes wrong there, with a
/// file or a model, ends that process and nothing else. Processes are started when they are asked for, and ended when
/// idle or when another checkpoint needs the place. Thread-safe.
class Pool {
 public:
  explicit Pool(PoolOptions options);
  /// Ends all processes. Requests that wait or are being answered end as `busy`.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// `done` is called once, from any thread, perhaps before this returns. `request` has the members of a request line
  /// but `id`. `folder` is the checkpoint's.
  /// `client` takes turns with others; once it has left, the request ends as `busy`, at once if another waits.
  using Done = std::function<void(Outcome)>;
  void translate(std::string checkpoint, std::filesystem::path folder, json::object request, Done done,
                 Client client = {});

  /// How many requests wait, and how many are being answered.
  struct Load {
    std::size_t waiting = 0, running = 0;
  };
  Load load() const;

  struct Loaded {
    std::string checkpoint;
    pid_t pid = 0;
    bool busy = false;
  };
  /// The processes there are.
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
  /// A place for one process, and the thread that talks with it.
  struct Slot {
    std::string checkpoint;  // loaded, being loaded, or empty
    std::unique_ptr<Helper> helper;
    pid_t pid = 0;
    bool busy = false;
    SteadyClock::time_point last_used;
    std::int64_t last_id = 0;
    std::thread thread;
  };
  void serve(Slot& slot);
  // With the mutex held:
  /// Why no further request of the owner may wait; empty: it may.
  std::string full(const std::string& owner) const;
  /// Takes the requests out of the queue whose clients have left.
  std::list<Job> take_abandoned();
  std::optional<Job> take_job(Slot& slot);
  bool is_next_to_load(const Slot& slot) const;
  /// The whole of one request; the slot's helper is gone afterwards unless all went well.
  Outcome answer(Slot& slot, const Job& job);
  Outcome load(Slot& slot, const Job& job);
  /// The helper's next line. Trouble::abandoned: the client has left, and another request waits.
  Helper::Line receive(Slot& slot, const Job& job);
  Outcome confused(Slot& slot);
  Outcome failed(Slot& slot, Helper::Trouble trouble, const std::string& doing);
  void drop_helper(Slot& slot);

  const PoolOptions options_;
  mutable std::mutex mutex_;  // guards what follows; a helper is its slot's thread's alone
  std::condition_variable changed_;
  std::list<Job> queue_;
  std::map<std::string, std::uint64_t> served_;  // by owner: the turn in which one of its requests was taken last
  std::uint64_t turn_ = 0;
  std::vector<std::unique_ptr<Slot>> slots_;
  bool ending_ = false;
};

}  // namespace babelring::translate
