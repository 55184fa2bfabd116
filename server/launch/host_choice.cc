#include "server/launch/host_choice.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace babelring::launch {
namespace {

/// Cool-down key of a fault.
std::string blamed(const Profile& profile, const std::string& host) {
  const bool listed = std::any_of(profile.hosts.begin(), profile.hosts.end(),
                                  [&](const std::string& text) { return parse_host(text).name == host; });
  return listed ? host : "profile " + profile.name;  // not a valid host name, because of the space
}

std::int64_t slots_of(const std::vector<Host>& hosts) {
  std::int64_t slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

/// The number of ranks with which a run goes on that gets `slots` slots, less than it wants; 0 if it must wait.
std::int64_t fewer_ranks(const Profile& profile, std::int64_t slots, bool power_of_two) {
  if (profile.minimum_ranks == 0) return 0;
  const auto ranks =
      power_of_two ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(slots))) : slots;
  return ranks >= profile.minimum_ranks ? ranks : 0;
}

/// The first hosts with slots for `ranks` ranks.
HostChoice::Choice take(const std::vector<Host>& hosts, std::int64_t ranks) {
  HostChoice::Choice chosen{.hosts = {}, .ranks = ranks};
  for (Host host : hosts) {
    if (ranks == 0) break;
    host.slots = std::min(host.slots, ranks);
    ranks -= host.slots;
    chosen.hosts.push_back(std::move(host));
  }
  return chosen;
}

}  // namespace

std::optional<HostChoice::Choice> HostChoice::choose(const Profile& profile, std::int64_t ranks, bool power_of_two,
                                                     Time now) const {
  // Faults without a faulty host count against the profile: retry at once after the first, and with backoff later.
  const std::string whole = blamed(profile, "");
  if (cool_down_.strikes(whole, now) > 1 && cool_down_.ready_at(whole, now) > now) return std::nullopt;
  if (profile.hosts.empty()) return Choice{.hosts = {}, .ranks = ranks};
  std::vector<Host> available, struck;
  for (const std::string& text : profile.hosts) {
    const Host host = parse_host(text);
    const bool cooling = cool_down_.ready_at(host.name, now) > now;
    if (!cooling) available.push_back(host);
    if (cooling && cool_down_.strikes(host.name, now) == 1) struck.push_back(host);
  }
  const std::int64_t fewer = fewer_ranks(profile, slots_of(available), power_of_two);
  if (slots_of(available) < ranks && fewer > 0) return take(available, fewer);
  available.insert(available.end(), struck.begin(), struck.end());
  if (slots_of(available) < ranks) return std::nullopt;
  return take(available, ranks);
}

void HostChoice::record_fault(const Profile& profile, const std::string& host, Time now) {
  cool_down_.strike(blamed(profile, host), std::chrono::duration<double>(profile.cool_down_s), now);
}

}  // namespace babelring::launch
