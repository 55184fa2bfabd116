#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/launch/attempt_watch.h"
#include "server/launch/evaluation_jobs.h"
#include "server/launch/heartbeats.h"
#include "server/launch/host_choice.h"
#include "server/launch/launcher.h"
#include "server/store/control.h"
#include "server/store/store.h"

namespace babelring::launch {

/// Dependencies of the supervisor. References must outlive it.
struct SupervisorParts {
  store::Store& store;
  Heartbeats& heartbeats;
  const Profiles& profiles;  // with defaults filled in
  Launchers& launchers;
  /// Monotonic time.
  std::function<SteadyClock::time_point()> now = [] { return SteadyClock::now(); };
  /// The time up to which all received heartbeats of a run have been processed. It lies before now while some are
  /// queued. Empty function: always now.
  std::function<SteadyClock::time_point(const std::string& run)> heard_until = {};
  /// Called on the supervisor's thread after each change of a run's state.
  std::function<void(const std::string& run)> changed = [](const std::string&) {};
  /// Why no server watched the attempts whose processes have ended when this one starts.
  Absence absence = Absence::none;
  /// Additional environment entries, NAME=value, for an attempt of a run.
  std::function<std::vector<std::string>(const std::string& run)> environment = [](const std::string&) {
    return std::vector<std::string>();
  };
};

/// Starts queued runs, monitors launchers and heartbeats, ends and fences attempts that lost a rank, and starts the
/// next attempt. All state that must survive a server restart is in the store; this object holds only monotonic times.
/// Not thread-safe.
class Supervisor {
 public:
  explicit Supervisor(SupervisorParts parts);

  /// Processes every unfinished run once. Returns the time until the next tick is due if nothing changes before. Throws
  /// SqlFailure or Busy; the caller may retry.
  std::chrono::milliseconds tick();
  /// From the next tick on, asks the ranks of the attempts that run beside the server, or of `all`, to save and end,
  /// and starts nothing. These runs are suspended; the next server continues them.
  void suspend_runs(bool all) { suspending_ = all ? Suspending::all : Suspending::beside_server; }
  /// True if a rank asked by suspend_runs() still ran in the last tick.
  bool is_suspending() const { return saving_; }

 private:
  using Time = SteadyClock::time_point;

  std::chrono::milliseconds supervise_runs();
  void supervise_all(const std::vector<store::LaunchRow>& runs,
                     void (Supervisor::*supervise_one)(const store::LaunchRow&));
  void supervise(const store::LaunchRow& run);
  /// Handles a stopping or lost run that a user started. Only its heartbeats show whether it is alive.
  void supervise_external(const store::LaunchRow& run);
  void end_external(const store::LaunchRow& run, const std::string& cause);

  /// Starts a queued run if its profile has room and hosts are free.
  void start(const store::LaunchRow& run, const Profile& profile);

  /// The watch over the run's current attempt. An earlier server process started an attempt without a watch.
  AttemptWatch& watch_of(const store::LaunchRow& run);
  /// Polls the launcher of a run with an attempt and acts on its status.
  void poll(const store::LaunchRow& run, const Profile& profile, Launcher& launcher);
  bool find_launcher(store::LaunchRow& run, AttemptWatch& watch, Launcher& launcher);
  void check_living(const store::LaunchRow& run, const Profile& profile, Launcher& launcher, AttemptWatch& watch);
  /// Asks an attempt that has fewer ranks than the run wants to save and end, once the missing hosts answer.
  void grow(const store::LaunchRow& run, const Profile& profile, Launcher& launcher, AttemptWatch& watch);
  /// Applies the event `reported` if a rank has sent a heartbeat within the last seconds.
  void report_signs_of_life(const store::LaunchRow& run, const std::vector<ReceivedHeartbeat>& beats);
  /// True if suspend_runs() is for attempts of this launcher.
  bool suspends(const Launcher& launcher) const;
  /// Asks the attempt to save and end, or ends it if no rank has reported yet.
  void suspend(const store::LaunchRow& run, Launcher& launcher, AttemptWatch& watch);
  void begin_ending(const store::LaunchRow& run, Launcher& launcher, AttemptWatch& watch, Ending ending);
  /// Records the end of an attempt whose processes are gone, and decides whether another attempt follows.
  void finish(const store::LaunchRow& run, const Profile& profile, const AttemptWatch& watch,
              const ProcessStatus& status);
  void change(const store::LaunchRow& run, store::RunEvent event, const std::string& cause);
  std::vector<ReceivedHeartbeat> beats_of(const store::LaunchRow& run) const;
  WatchTimes times_of(const store::LaunchRow& run) const;

  SupervisorParts parts_;
  HostChoice hosts_;
  EvaluationJobs evaluations_;
  std::map<std::string, AttemptWatch> watches_;  // by run
  std::map<std::string, std::int64_t> running_;  // number of attempts by profile, in this tick
  enum class Suspending { no, beside_server, all } suspending_ = Suspending::no;
  bool saving_ = false;  // an attempt that is asked to save and end was alive in this tick
  bool lively_ = false;  // an attempt is running, or was started in this tick
  Time now_, awake_since_;
  Time due_;  // latest time for the next tick
};

}  // namespace babelring::launch
