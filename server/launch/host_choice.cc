#include "server/launch/host_choice.h"

#include <algorithm>
#include <utility>

namespace babelring::launch {
namespace {

/// Cool-down key of a fault.
std::string blamed(const Profile& profile, const std::string& host) {
  const bool listed = std::any_of(profile.hosts.begin(), profile.hosts.end(),
                                  [&](const std::string& text) { return parse_host(text).name == host; });
  return listed ? host : "profile " + profile.name;  // not a valid host name, because of the space
}

}  // namespace

std::optional<std::vector<Host>> HostChoice::choose(const Profile& profile, std::int64_t ranks, Time now) const {
  // Faults without a faulty host count against the profile: retry at once after the first, and with backoff later.
  const std::string whole = blamed(profile, "");
  if (cool_down_.strikes(whole, now) > 1 && cool_down_.ready_at(whole, now) > now) return std::nullopt;
  if (profile.hosts.empty()) return std::vector<Host>();
  std::vector<Host> available, struck;
  for (const std::string& text : profile.hosts) {
    const Host host = parse_host(text);
    const bool cooling = cool_down_.ready_at(host.name, now) > now;
    if (!cooling) available.push_back(host);
    if (cooling && cool_down_.strikes(host.name, now) == 1) struck.push_back(host);
  }
  available.insert(available.end(), struck.begin(), struck.end());
  std::vector<Host> chosen;
  for (Host host : available) {
    if (ranks == 0) break;
    host.slots = std::min(host.slots, ranks);
    ranks -= host.slots;
    chosen.push_back(std::move(host));
  }
  if (ranks > 0) return std::nullopt;
  return chosen;
}

void HostChoice::record_fault(const Profile& profile, const std::string& host, Time now) {
  cool_down_.strike(blamed(profile, host), std::chrono::duration<double>(profile.cool_down_s), now);
}

}  // namespace babelring::launch
