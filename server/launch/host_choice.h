#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "server/launch/launcher.h"
#include "server/launch/profile.h"

namespace babelring::launch {

/// Exponential backoff for hosts that failed recently. Each further failure doubles a host's waiting time, up to ten
/// times the first. A host's failures expire after `forgotten_after` without a new one.
class CoolDown {
 public:
  using Time = SteadyClock::time_point;

  /// Records a failure. `first` is the waiting time after a first failure.
  void strike(const std::string& host, std::chrono::duration<double> first, Time now);
  /// The time from which a host may be used again. Not later than `now` if it is available.
  Time ready_at(const std::string& host, Time now) const;
  /// Number of unexpired failures of a host.
  int strikes(const std::string& host, Time now) const;

  static constexpr auto forgotten_after = std::chrono::minutes(10);

 private:
  struct Strikes {
    int count = 0;
    Time last, ready;
  };
  std::map<std::string, Strikes> hosts_;
};

/// The host of an attempt's `hosts` that a fault is about: the one called `reported`, without regard to domain and
/// case, or, since a host may call itself otherwise, the one with the slot of `rank`. mpirun fills hosts in order.
/// Empty if neither tells.
std::string listed_host(const std::vector<Host>& hosts, const std::string& reported, std::optional<std::int64_t> rank);

/// Chooses the hosts of attempts and avoids those that failed recently. Not thread-safe.
class HostChoice {
 public:
  using Time = SteadyClock::time_point;

  /// Where an attempt runs. `hosts` is empty for a profile without hosts: this host, or chosen by the scheduler.
  struct Choice {
    std::vector<Host> hosts;
    std::int64_t ranks = 0;
  };
  /// Chooses from the hosts that are not cooling down: for `ranks` ranks or, if they have too few slots, for fewer, but
  /// at least the profile's minimum_ranks (a power of two with `power_of_two`). If even that fails, hosts that are
  /// cooling down after one failure are added at the end. Returns nothing if the run must wait.
  std::optional<Choice> choose(const Profile& profile, std::int64_t ranks, bool power_of_two, Time now) const;
  /// Records a fault. It counts against `host` if the profile lists it, otherwise against the profile as a whole.
  void record_fault(const Profile& profile, const std::string& host, Time now);

  /// After a fault of `run` that named no host of the profile: before its next start may_start_on() asks the hosts.
  void search_hosts(const std::string& run) { searches_.insert_or_assign(run, Search()); }
  /// True if an attempt may start on `hosts`. In a search all are asked at once whether programs start there, then, if
  /// one does not answer, one by one. Those on which none starts cool down, so that a dead host does not use up the
  /// run's restarts.
  bool may_start_on(const std::vector<Host>& hosts, const std::string& run, const Profile& profile, Launcher& launcher,
                    Time now);
  /// Ends the searches of all other runs.
  void keep_runs(const std::set<std::string>& runs);

 private:
  struct Search {
    std::vector<Host> left;    // to be asked one by one
    std::int64_t missing = 0;  // found so far
  };

  CoolDown cool_down_;
  std::map<std::string, Search> searches_;  // by run
};

}  // namespace babelring::launch
