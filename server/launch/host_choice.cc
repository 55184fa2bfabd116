#include "server/launch/host_choice.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/text.h"

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

/// A host's name without its domain, in lower case; an address as it is.
std::string short_name(const std::string& host) {
  const bool address =
      host.find_first_not_of("0123456789.") == std::string::npos || host.find(':') != std::string::npos;
  return lower(address ? host : host.substr(0, host.find('.')));
}

}  // namespace

std::string listed_host(const std::vector<Host>& hosts, const std::string& reported, std::optional<std::int64_t> rank) {
  if (reported.empty()) return "";
  for (const Host& host : hosts) {
    if (host.name == reported) return reported;
  }
  std::vector<std::string> alike;
  for (const Host& host : hosts) {
    if (short_name(host.name) == short_name(reported)) alike.push_back(host.name);
  }
  if (alike.size() == 1) return alike.front();
  std::int64_t end = 0;
  for (const Host& host : hosts) {
    end += host.slots;
    if (rank && *rank >= 0 && *rank < end) return host.name;
  }
  return "";
}

bool HostChoice::may_start_on(const std::vector<Host>& hosts, const std::string& run, const Profile& profile,
                              Launcher& launcher, Time now) {
  const auto found = searches_.find(run);
  if (found == searches_.end()) return true;
  Search& search = found->second;
  const bool one_by_one = !search.left.empty();
  const std::optional<bool> answer =
      launcher.hosts_answer(profile, one_by_one ? std::vector{search.left.back()} : hosts);
  if (!answer) return false;
  if (!one_by_one) {
    if (*answer) {
      searches_.erase(found);
    } else {
      search = {.left = hosts};
    }
    return *answer;
  }
  const std::string asked = search.left.back().name;
  search.left.pop_back();
  if (!*answer) {
    ++search.missing;
    record_fault(profile, asked, now);
    spdlog::warn("run {}: host {} does not answer; it is left out until it has cooled down", run, asked);
  }
  if (!search.left.empty() || search.missing > 0) return false;
  searches_.erase(found);  // each of them answers: try
  return true;
}

void HostChoice::keep_runs(const std::set<std::string>& runs) {
  std::erase_if(searches_, [&](const auto& entry) { return !runs.contains(entry.first); });
}

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
