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

/// By the name that profiles call them by.
using Launchers = std::map<std::string, std::unique_ptr<Launcher>>;

/// What the supervisor works with. References must outlive it.
struct SupervisorParts {
  store::Store& store;
  Heartbeats& heartbeats;
  const Profiles& profiles;  // with nothing left empty that has a default
  Launchers& launchers;
  /// Monotonic time.
  std::function<SteadyClock::time_point()> now = [] { return SteadyClock::now(); };
  /// The time up to which every heartbeat of a run that reached this process has been noted: now, unless some still
  /// wait to be handled. Empty: always now.
  std::function<SteadyClock::time_point(const std::string& run)> heard_until = {};
  /// Called after each change of a run's state, on the supervisor's thread.
  std::function<void(const std::string& run)> changed = [](const std::string&) {};
  /// Further NAME=value for an attempt of a run.
  std::function<std::vector<std::string>(const std::string& run)> environment = [](const std::string&) {
    return std::vector<std::string>();
  };
};

/// Starts queued runs, watches launchers and heartbeats, ends and fences attempts that lost a rank, and starts the next
/// ones. All state that must survive a restart of the server is in the store; in memory there are only points in
/// monotonic time. One thread.
class Supervisor {
 public:
  explicit Supervisor(SupervisorParts parts) : parts_(std::move(parts)) {}

  /// Looks once at every run that is not over. Returns the time until the next look is due, unless something changes
  /// before. Throws SqlFailure or Busy: call it again.
  std::chrono::milliseconds tick();

 private:
  std::chrono::milliseconds look();
  using Time = SteadyClock::time_point;
  struct Ending {  // the attempt is being ended by us
    Time since;
    store::RunEvent event;
    std::string cause, host;  // `host`: to blame, if any
  };
  struct Watch {
    std::int64_t attempt = 0;
    bool started_here = false;  // by this process, not by an earlier one
    Time since;                 // when it was started or found
    std::optional<Time> stopping_since, unseen_since;
    std::optional<Ending> ending;
  };
  struct Fault {
    std::string cause, host;
  };

  // supervisor.cc: from the queue to a launcher
  void start(const store::LaunchRow& run, const Profile& profile);
  bool has_room(const store::LaunchRow& run, const Profile& profile) const;
  /// Hosts with slots for all ranks, those that failed recently left out if possible; nothing: not now.
  std::optional<std::vector<Host>> choose_hosts(const Profile& profile, std::int64_t ranks) const;
  /// What a fault counts against: `host` where the profile lists it, else the profile as a whole.
  static std::string blamed(const Profile& profile, const std::string& host);

  // supervision.cc: what becomes of an attempt
  void attend_all(const std::vector<store::LaunchRow>& runs, void (Supervisor::*attend_one)(const store::LaunchRow&));
  void attend(const store::LaunchRow& run);
  /// One started by hand that is stopping or lost: only its heartbeats tell of it.
  void attend_external(const store::LaunchRow& run);
  void conclude_external(const store::LaunchRow& run, const std::string& cause);
  void watch(const store::LaunchRow& run, const Profile& profile, Launcher& launcher);
  bool find_launcher(store::LaunchRow& run, Watch& watch, Launcher& launcher);
  void watch_living(const store::LaunchRow& run, const Profile& profile, Launcher& launcher, Watch& watch);
  void watch_stopping(const store::LaunchRow& run, Launcher& launcher, Watch& watch);
  void note_signs_of_life(const store::LaunchRow& run, const std::vector<HeardBeat>& beats);
  std::optional<Fault> find_fault(const store::LaunchRow& run, const Profile& profile, const Watch& watch,
                                  const std::vector<HeardBeat>& beats) const;
  void begin_end(const store::LaunchRow& run, Launcher& launcher, Watch& watch, Ending ending);
  void conclude(const store::LaunchRow& run, const Profile& profile, const Watch& watch, const Sight& sight);
  Ending judge(const store::LaunchRow& run, const Watch& watch, const Sight& sight) const;
  void change(const store::LaunchRow& run, store::RunEvent event, const std::string& cause);
  /// Until when the run's heartbeats are known: what comes later may be on its way through this process.
  Time heard_until(const std::string& run) const;
  /// Whether one of the beats is not older than `age`, as far as they are known.
  bool heard_within(const store::LaunchRow& run, const std::vector<HeardBeat>& beats, std::chrono::seconds age) const;
  /// Seconds of silence until `until`, not counting time in which this process was late, or the attempt not running.
  double silence_s(const HeardBeat& beat, const Watch& watch, Time until) const;

  SupervisorParts parts_;
  CoolDown cool_down_;
  std::map<std::string, Watch> watches_;         // by run
  std::map<std::string, std::int64_t> running_;  // attempts by profile, in this tick
  bool lively_ = false;                          // an attempt is running, or was started in this tick
  Time now_, awake_since_;
  Time due_;  // when the next tick should come at the latest
};

}  // namespace babelring::launch
