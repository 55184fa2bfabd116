#include "server/launch/cool_down.h"

#include <algorithm>
#include <cmath>

namespace babelring::launch {

void CoolDown::strike(const std::string& host, std::chrono::duration<double> first, Time now) {
  Strikes& found = hosts_[host];
  if (now - found.last > forgotten_after) found.count = 0;
  found.last = now;
  const double factor = std::min(std::pow(2.0, found.count), 10.0);
  ++found.count;
  found.ready = now + std::chrono::duration_cast<SteadyClock::duration>(first * factor);
}

CoolDown::Time CoolDown::ready_at(const std::string& host, Time now) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() ? now : std::max(found->second.ready, now);
}

int CoolDown::strikes(const std::string& host, Time now) const {
  const auto found = hosts_.find(host);
  return found == hosts_.end() || now - found->second.last > forgotten_after ? 0 : found->second.count;
}

}  // namespace babelring::launch
