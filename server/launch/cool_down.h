#pragma once

#include <map>
#include <string>

#include "base/clock.h"

namespace babelring::launch {

/// Hosts that failed lately. Each further failure doubles the time a host is left alone, up to ten times the first;
/// what lies back long enough is forgotten.
class CoolDown {
 public:
  using Time = SteadyClock::time_point;

  void strike(const std::string& host, std::chrono::duration<double> first, Time now);
  /// When a host may be used again: not later than `now` if it may be.
  Time ready_at(const std::string& host, Time now) const;
  /// How many failures of it are remembered.
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
