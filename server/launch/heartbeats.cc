#include "server/launch/heartbeats.h"

#include <algorithm>

namespace babelring::launch {
namespace {

constexpr auto remembered = std::chrono::hours(24);
constexpr auto recent = std::chrono::minutes(1);
constexpr int forgotten_at_once = 4;  // silent runs dropped per heartbeat; more than one, so the total shrinks

double rate(std::int64_t before, std::int64_t after, double seconds) {
  return after >= before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

}  // namespace

void Heartbeats::record(const std::string& run, const Beat& beat, const Source& source) {
  const auto now = std::min(beat.arrived.value_or(SteadyClock::time_point::max()), now_());
  const std::lock_guard lock(mutex_);
  forget_silent(now);
  Run& known = run_named(run, source.token);
  known.at = now;
  ReceivedHeartbeat& heard = rank_of(known, beat.rank);
  if (heard.beat.attempt == beat.attempt && heard.beat.pid == beat.pid) {
    const double seconds = std::chrono::duration<double>(now - heard.at).count();
    heard.rx_bytes_per_s = rate(heard.beat.network_rx_bytes, beat.network_rx_bytes, seconds);
    heard.tx_bytes_per_s = rate(heard.beat.network_tx_bytes, beat.network_tx_bytes, seconds);
  }
  heard.beat = beat;
  heard.at = now;
  make_room(run, known, source.ranks > 0 ? static_cast<std::size_t>(source.ranks) : max_ranks);
}

Heartbeats::Run& Heartbeats::run_named(const std::string& name, const std::string& token) {
  const auto [entry, fresh] = runs_.try_emplace(name);
  Run& run = entry->second;
  if (fresh) {
    run.token = token;
    run.in_all = oldest_first_.insert(oldest_first_.end(), name);
    std::list<std::string>& of_token = tokens_[token].oldest_first;
    run.in_token = of_token.insert(of_token.end(), name);
  } else {
    std::list<std::string>& of_token = tokens_.at(run.token).oldest_first;
    oldest_first_.splice(oldest_first_.end(), oldest_first_, run.in_all);
    of_token.splice(of_token.end(), of_token, run.in_token);
  }
  return run;
}

ReceivedHeartbeat& Heartbeats::rank_of(Run& run, std::int64_t number) {
  const auto [entry, fresh] = run.ranks.try_emplace(number);
  Rank& rank = entry->second;
  if (fresh) {
    rank.in_run = run.oldest_first.insert(run.oldest_first.end(), number);
    ++tokens_.at(run.token).ranks;
  } else {
    run.oldest_first.splice(run.oldest_first.end(), run.oldest_first, rank.in_run);
  }
  return rank.heard;
}

void Heartbeats::make_room(const std::string& name, Run& run, std::size_t ranks) {
  Token& token = tokens_.at(run.token);
  const auto drop_oldest_rank = [&] {
    run.ranks.erase(run.oldest_first.front());
    run.oldest_first.pop_front();
    --token.ranks;
  };
  while (run.ranks.size() > ranks) drop_oldest_rank();
  while (token.ranks > std::max(max_token_ranks, ranks)) {
    const std::string oldest = token.oldest_first.front();
    if (oldest == name) {
      drop_oldest_rank();
    } else {
      drop(oldest);
    }
  }
}

void Heartbeats::drop(const std::string& name) {
  const auto found = runs_.find(name);
  if (found == runs_.end()) return;
  Run& run = found->second;
  const auto token = tokens_.find(run.token);
  token->second.ranks -= run.ranks.size();
  token->second.oldest_first.erase(run.in_token);
  oldest_first_.erase(run.in_all);
  if (token->second.oldest_first.empty()) tokens_.erase(token);
  runs_.erase(found);
}

void Heartbeats::forget_silent(SteadyClock::time_point now) {
  for (int i = 0; i < forgotten_at_once && !oldest_first_.empty(); ++i) {
    const std::string oldest = oldest_first_.front();
    if (now - runs_.at(oldest).at <= remembered) return;
    drop(oldest);
  }
}

std::vector<ReceivedHeartbeat> Heartbeats::of(const std::string& run, std::int64_t attempt) const {
  const std::lock_guard lock(mutex_);
  std::vector<ReceivedHeartbeat> found;
  const auto known = runs_.find(run);
  if (known == runs_.end()) return found;
  for (const auto& [number, rank] : known->second.ranks) {
    if (rank.heard.beat.attempt == attempt) found.push_back(rank.heard);
  }
  return found;
}

std::vector<Node> Heartbeats::nodes() const {
  const auto now = now_();
  const std::lock_guard lock(mutex_);
  std::map<std::string, Node> hosts;
  for (const auto& [name, run] : runs_) {
    for (const auto& [number, rank] : run.ranks) {
      const ReceivedHeartbeat& heard = rank.heard;
      if (now - heard.at > remembered) continue;
      Node& node = hosts[heard.beat.host];
      if (node.host.empty() || heard.at > node.newest.at) node.newest = heard;
      node.host = heard.beat.host;
      if (now - heard.at <= recent) node.ranks.push_back({name, number, heard.beat.gpu});
    }
  }
  std::vector<Node> nodes;
  for (auto& [name, node] : hosts) nodes.push_back(std::move(node));
  return nodes;
}

void Heartbeats::forget(const std::string& run) {
  const std::lock_guard lock(mutex_);
  drop(run);
}

std::size_t Heartbeats::runs() const {
  const std::lock_guard lock(mutex_);
  return runs_.size();
}

}  // namespace babelring::launch
