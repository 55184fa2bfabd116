#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/launch/cool_down.h"
#include "server/launch/profile.h"

namespace babelring::launch {

/// Chooses the hosts of attempts and avoids those that failed recently. Not thread-safe.
class HostChoice {
 public:
  using Time = SteadyClock::time_point;

  /// Where an attempt runs. `hosts` is empty for a profile without hosts: this host, or chosen by the scheduler.
  struct Choice {
    std::vector<Host> hosts;
    std::int64_t ranks = 0;
  };
  /// Hosts with slots for `ranks` ranks; without those that failed recently also for fewer, down to the profile's
  /// minimum_ranks, of which `power_of_two` wants a power of two. Otherwise hosts that failed once come last. Returns
  /// nothing if the run must wait.
  std::optional<Choice> choose(const Profile& profile, std::int64_t ranks, bool power_of_two, Time now) const;
  /// Records a fault. It counts against `host` if the profile lists it, otherwise against the profile as a whole.
  void record_fault(const Profile& profile, const std::string& host, Time now);

 private:
  CoolDown cool_down_;
};

/// A search for the hosts that do not answer: all are asked at once, then, if they do not answer, one by one.
struct HostSearch {
  std::vector<Host> left;    // to be asked one by one
  std::int64_t missing = 0;  // found so far
};

}  // namespace babelring::launch
