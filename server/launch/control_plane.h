#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/failure.h"
#include "base/replaceable.h"
#include "server/launch/heartbeats.h"
#include "server/launch/launcher.h"
#include "server/store/checkpoints.h"
#include "server/store/store.h"

namespace babelring::launch {

enum class Absence;

/// Time for which a deleted run can be restored.
inline constexpr std::int64_t deleted_kept_ms = std::int64_t{7} * 24 * 3600 * 1000;

/// Removes a checkpoint from disk. Throws if it must stay. Its folder was reported by a worker and is untrusted.
using RemoveCheckpoint = std::function<void(const store::CheckpointRow&)>;

/// Records the purge of a run, in the transaction that purges it.
using NotePurge = std::function<void(store::Database&, const std::string& run)>;

/// Permanently removes runs deleted more than deleted_kept_ms ago. If the deletion requested it, also removes their
/// checkpoints, and the run folder if the server started the run.
void purge_deleted_runs(store::Store& store, const RemoveCheckpoint& remove, const NotePurge& note,
                        std::int64_t now_ms);

struct ControlOptions {
  Profiles profiles = builtin_profiles();
  std::filesystem::path worker;       // default worker program of profiles
  std::filesystem::path runs_folder;  // default run folder of profiles
};

/// Owns the profiles, the heartbeats and the supervisor thread. Thread-safe after start().
class ControlPlane {
 public:
  /// `store` must outlive it.
  ControlPlane(store::Store& store, ControlOptions options);
  /// Stops supervision. Runs continue.
  ~ControlPlane();
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;

  /// Sets a callback for every change of a run's state. Call before start().
  void on_change(std::function<void(const std::string& run)> changed) { changed_ = std::move(changed); }
  /// Sets a function that returns additional environment entries, NAME=value, for a new attempt. Call before start().
  void on_launch(std::function<std::vector<std::string>(const std::string& run)> environment) {
    environment_ = std::move(environment);
  }
  /// Sets the functions that remove a checkpoint of a deleted run and that record a purge. Call before start(). By
  /// default, checkpoints stay and nothing is recorded.
  void on_purge(RemoveCheckpoint remove, NotePurge note) {
    remove_ = std::move(remove);
    note_purge_ = std::move(note);
  }
  /// Sets SupervisorParts::heard_until. Call before start(). The function is called on the supervisor's thread until
  /// this object is destroyed.
  void hear_until(std::function<SteadyClock::time_point(const std::string& run)> heard_until) {
    heard_until_ = std::move(heard_until);
  }
  /// Sets what the supervisor's thread does first, before it looks at runs. Call before start().
  void begin_with(std::function<void()> first) { first_ = std::move(first); }
  /// Starts supervision. `address` is the server address for workers of profiles that set none.
  void start(const std::string& address);

  /// The profile with this name; null if there is none.
  std::shared_ptr<const Profile> find_profile(const std::string& name) const;
  std::shared_ptr<const Profiles> profiles() const { return profiles_.get(); }
  /// Replaces the profiles, effective from the next supervisor tick. Requires start(). Throws UsageFailure, and changes
  /// nothing, if a run that is neither finished nor lost needs a profile that no longer exists.
  void use_profiles(Profiles chosen);
  Heartbeats& heartbeats() { return heartbeats_; }
  /// The command line for an order: program and arguments.
  std::vector<std::string> command(const Profile& profile, const LaunchOrder& order) const;
  /// Triggers a supervisor tick now.
  void wake();
  /// Asks the runs beside the server, or `all` that it started, to save a checkpoint and end, and starts no more. The
  /// next server continues them. Returns at once; is_suspending() is true until their processes have ended.
  void suspend_runs(bool all);
  bool is_suspending();

 private:
  enum class Suspending { no, beside_server, all };

  void loop();
  /// Stores the last minute of attempts whose ranks have all been silent for `silence`.
  void store_black_boxes(std::chrono::seconds silence);
  /// Compares this start with the last server's end.
  Absence find_absence();
  Suspending suspend_wish();
  void note_suspended(bool saving);
  /// The profiles with defaults filled in.
  std::shared_ptr<const Profiles> completed(Profiles profiles) const;

  store::Store& store_;
  const ControlOptions options_;
  std::string address_;
  Replaceable<const Profiles> profiles_;
  Heartbeats heartbeats_;
  Launchers launchers_;
  std::function<void(const std::string&)> changed_ = [](const std::string&) {};
  std::function<std::vector<std::string>(const std::string&)> environment_ = [](const std::string&) {
    return std::vector<std::string>();
  };
  std::function<SteadyClock::time_point(const std::string&)> heard_until_;
  std::function<void()> first_ = [] {};
  RemoveCheckpoint remove_ = [](const store::CheckpointRow&) { fail("no function to remove checkpoints is set"); };
  NotePurge note_purge_ = [](store::Database&, const std::string&) {};
  std::mutex mutex_;
  std::condition_variable wake_;
  bool woken_ = false, stopping_ = false;
  Suspending suspend_ = Suspending::no;
  bool saving_ = false;  // the runs asked by suspend_runs() have not all ended
  std::thread thread_;
};

/// True if the processes beside this one end with it: it is the first of its container, or was started by a small init
/// program that is.
bool ends_its_container();

/// Path of `worker` in the folder of the running program.
std::filesystem::path default_worker();

}  // namespace babelring::launch
