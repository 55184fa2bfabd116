#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/launch/heartbeats.h"
#include "server/launch/launcher.h"
#include "server/launch/profile.h"
#include "server/store/attempts.h"

namespace babelring::launch {

/// The end of an attempt: what happened, and the host, by the name that it gives itself, and the rank that caused it.
struct Ending {
  store::RunEvent event = store::RunEvent::faulted;
  std::string cause, host;  // host empty: unknown
  std::optional<std::int64_t> rank = std::nullopt;
};

/// The moments that decide about an attempt.
struct WatchTimes {
  SteadyClock::time_point now;
  SteadyClock::time_point heard_until;  // all heartbeats that arrived earlier have been processed; not after `now`
  SteadyClock::time_point awake_since;  // the supervisor was delayed before: earlier silence does not count
};

/// Watches one attempt: tracks when it started, was asked to stop, lost its status and began to end, and decides
/// when to end it. Does no I/O and keeps monotonic times only. Not thread-safe.
class AttemptWatch {
 public:
  using Time = SteadyClock::time_point;
  using Beats = std::vector<ReceivedHeartbeat>;  // the newest of each rank

  /// `since`: time of the start, or of the rediscovery by this process. `started_here`: this process started it.
  AttemptWatch(std::int64_t attempt, Time since, bool started_here)
      : attempt_(attempt), since_(since), started_here_(started_here) {}

  std::int64_t attempt() const { return attempt_; }
  bool started_here() const { return started_here_; }
  /// True if this process has seen the attempt alive, so that it knows when it ended.
  bool was_seen_alive() const { return started_here_ || seen_alive_; }
  void set_seen_alive() { seen_alive_ = true; }
  /// The launcher's processes were found again after the server had ended during the launch.
  void set_rediscovered() { started_here_ = false; }
  /// The scheduler has not started the processes yet: all timeouts begin at `now`.
  void set_pending(Time now) { since_ = now; }

  /// The fault for which the attempt must be ended: a rank that did not report in time, a rank that fell silent, or
  /// ranks that report without making updates.
  std::optional<Ending> find_fault(const Profile& profile, std::int64_t world_size, const Beats& beats,
                                   const WatchTimes& times) const;
  /// Why an attempt that is asked to stop must be ended now; nothing while it has time left. The first call starts the
  /// run's grace period.
  std::optional<Ending> stop_overdue(const store::LaunchRow& run, const Beats& beats, Time now);
  /// Seconds since the first call of this or stop_overdue(), which is the first sight of the stop request.
  double stopping_s(Time now);

  /// The profile's hosts of the attempt in the order of their ranks; empty if this process did not start it.
  void set_hosts(std::vector<Host> hosts) { hosts_ = std::move(hosts); }
  const std::vector<Host>& hosts() const { return hosts_; }

  /// The launcher knows the attempt's status.
  void set_seen() { unseen_since_.reset(); }
  /// Call while the launcher has no status. True if that has lasted a minute in which no rank reported either.
  bool is_lost_unseen(const Beats& beats, const WatchTimes& times);
  /// True if no rank has reported for a minute, for attempts that have no launcher.
  bool is_lost_silent(const Beats& beats, const WatchTimes& times) const;

  /// The supervisor is ending the attempt: its processes were asked to end.
  void begin_ending(Ending ending, Time now) {
    ending_ = std::move(ending);
    ending_since_ = now;
    is_ending_ = true;
  }
  /// The ending that was begun; null if there is none.
  const Ending* ending() const { return is_ending_ ? &ending_ : nullptr; }
  /// True if processes that were asked to end had enough time for it and must be killed.
  bool ending_is_urgent(Time now) const { return now - ending_since_ > patience; }

  /// Whether the attempt, which has fewer ranks than the run wants, may look for more: once for each checkpoint after
  /// the attempt began, which the first call learns. `newest_checkpoint` is the update of the run's newest one.
  bool may_look_for_hosts(std::int64_t newest_checkpoint);
  /// The missing hosts did not answer: look again after the next checkpoint.
  void looked_for_hosts() { looked_at_ = newest_; }
  /// The ranks are asked to save and end, so that the run goes on later: with more of them, or by another server.
  void begin_suspending(std::string cause, Time now);
  bool is_suspending() const { return suspending_since_.has_value(); }
  /// The ending of a suspending attempt that has not ended within `grace`; nothing while it has time left.
  std::optional<Ending> suspending_overdue(Time now, std::chrono::seconds grace) const;
  /// Meaning of the end of the attempt's processes, if it is decided; else null.
  const Ending* decided() const { return is_ending_ || is_suspending() ? &ending_ : nullptr; }

  static constexpr auto patience = std::chrono::seconds(3);     // between asking processes to end and killing them
  static constexpr auto lost_after = std::chrono::seconds(60);  // without launcher status and heartbeats

 private:
  /// Seconds of silence of a rank. Excludes time in which the supervisor was delayed or the attempt was not running.
  double silence_s(const ReceivedHeartbeat& beat, const WatchTimes& times) const;
  /// Seconds for which the attempt has been watched without a delay.
  double watched_s(const WatchTimes& times) const;

  std::int64_t attempt_;
  std::vector<Host> hosts_;
  Time since_;
  bool started_here_, seen_alive_ = false;
  std::optional<Time> stopping_since_, unseen_since_;
  bool is_ending_ = false;
  Ending ending_;  // valid if is_ending_ or suspending_since_
  std::optional<Time> suspending_since_;
  std::optional<std::int64_t> looked_at_;  // the newest checkpoint at the last look for hosts, or at the start
  std::int64_t newest_ = 0;
  Time ending_since_;
};

/// True if a heartbeat arrived within `age` before times.heard_until.
bool heard_within(const std::vector<ReceivedHeartbeat>& beats, std::chrono::seconds age, const WatchTimes& times);

/// Why no server watched the end of an attempt's processes.
enum class Absence {
  none,     // one did, or it was killed
  planned,  // the last server was asked to end
  world,    // the machine or the container was started anew, which ended every process
};

/// Why an attempt ended whose processes are gone, from the most specific source: the end that the ranks reported or
/// noted in run.json, `decided` (the ending that the supervisor began, or null), the launcher's status, the launcher's
/// log in the run's folder. An exit code alone is no success: Open MPI 5 exits 0 when it has lost a host. An end that
/// belongs to the end of the last server is no fault of the run, which is suspended.
Ending classify_end(const store::LaunchRow& run, const Ending* decided, const ProcessStatus& status, Absence absence);

}  // namespace babelring::launch
