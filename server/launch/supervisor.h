#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/launch/cool_down.h"
#include "server/launch/heartbeats.h"
#include "server/launch/launcher.h"
#include "server/store/control.h"
#include "server/store/store.h"

namespace babelring::launch {

/// Launchers by the name used in profiles.
using Launchers = std::map<std::string, std::unique_ptr<Launcher>>;

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
  explicit Supervisor(SupervisorParts parts) : parts_(std::move(parts)) {}

  /// Processes every unfinished run once. Returns the time until the next tick is due if nothing changes before. Throws
  /// SqlFailure or Busy; the caller may retry.
  std::chrono::milliseconds tick();

 private:
  std::chrono::milliseconds supervise_runs();
  using Time = SteadyClock::time_point;
  struct Ending {  // the supervisor is ending the attempt
    Time since;
    store::RunEvent event;
    std::string cause, host;  // `host`: the faulty host, if any
  };
  struct Watch {
    std::int64_t attempt = 0;
    bool started_here = false;  // by this process, not by an earlier server process
    Time since;                 // time of start or rediscovery
    std::optional<Time> stopping_since, unseen_since;
    std::optional<Ending> ending;
  };
  struct Fault {
    std::string cause, host;
  };

  // supervisor.cc: starting queued runs
  void start(const store::LaunchRow& run, const Profile& profile);
  bool has_room(const store::LaunchRow& run, const Profile& profile) const;
  /// Chooses hosts with slots for all ranks. Avoids hosts that failed recently if possible. Returns nothing if the run
  /// must wait.
  std::optional<std::vector<Host>> choose_hosts(const Profile& profile, std::int64_t ranks) const;
  /// Cool-down key for a fault: `host` if the profile lists it, otherwise the profile as a whole.
  static std::string blamed(const Profile& profile, const std::string& host);

  // supervision.cc: monitoring and ending attempts
  void supervise_all(const std::vector<store::LaunchRow>& runs,
                     void (Supervisor::*supervise_one)(const store::LaunchRow&));
  void supervise(const store::LaunchRow& run);
  /// Handles a stopping or lost run that a user started. Only its heartbeats show whether it is alive.
  void supervise_external(const store::LaunchRow& run);
  void finish_external(const store::LaunchRow& run, const std::string& cause);
  void watch(const store::LaunchRow& run, const Profile& profile, Launcher& launcher);
  bool find_launcher(store::LaunchRow& run, Watch& watch, Launcher& launcher);
  void watch_living(const store::LaunchRow& run, const Profile& profile, Launcher& launcher, Watch& watch);
  void watch_stopping(const store::LaunchRow& run, Launcher& launcher, Watch& watch);
  void report_signs_of_life(const store::LaunchRow& run, const std::vector<ReceivedHeartbeat>& beats);
  std::optional<Fault> find_fault(const store::LaunchRow& run, const Profile& profile, const Watch& watch,
                                  const std::vector<ReceivedHeartbeat>& beats) const;
  void begin_end(const store::LaunchRow& run, Launcher& launcher, Watch& watch, Ending ending);
  void finish(const store::LaunchRow& run, const Profile& profile, const Watch& watch, const ProcessStatus& status);
  Ending classify_end(const store::LaunchRow& run, const Watch& watch, const ProcessStatus& status) const;
  void change(const store::LaunchRow& run, store::RunEvent event, const std::string& cause);
  /// The time up to which all received heartbeats of the run have been processed.
  Time heard_until(const std::string& run) const;
  /// True if the newest processed heartbeat is not older than `age`.
  bool heard_within(const store::LaunchRow& run, const std::vector<ReceivedHeartbeat>& beats,
                    std::chrono::seconds age) const;
  /// Seconds of silence before `until`. Excludes time in which the supervisor was delayed or the attempt was not
  /// running.
  double silence_s(const ReceivedHeartbeat& beat, const Watch& watch, Time until) const;

  SupervisorParts parts_;
  CoolDown cool_down_;
  std::map<std::string, Watch> watches_;         // by run
  std::map<std::string, std::int64_t> running_;  // number of attempts by profile, in this tick
  bool lively_ = false;                          // an attempt is running, or was started in this tick
  Time now_, awake_since_;
  Time due_;  // latest time for the next tick
};

}  // namespace babelring::launch
