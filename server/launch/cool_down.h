#pragma once

#include <map>
#include <string>

#include "base/clock.h"

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

}  // namespace babelring::launch
