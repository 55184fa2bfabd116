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

  /// Hosts with slots for all ranks; empty for a profile without hosts: this host, or chosen by the scheduler. Hosts
  /// that failed once recently come last. Returns nothing if the run must wait.
  std::optional<std::vector<Host>> choose(const Profile& profile, std::int64_t ranks, Time now) const;
  /// Records a fault. It counts against `host` if the profile lists it, otherwise against the profile as a whole.
  void record_fault(const Profile& profile, const std::string& host, Time now);

 private:
  CoolDown cool_down_;
};

}  // namespace babelring::launch
