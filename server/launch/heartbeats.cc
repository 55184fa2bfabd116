#include "server/launch/heartbeats.h"

#include <algorithm>

namespace babelring::launch {
namespace {

constexpr std::size_t most_beats = 100'000;
constexpr auto remembered = std::chrono::hours(24);
constexpr auto recent = std::chrono::minutes(1);

double rate(std::int64_t before, std::int64_t after, double seconds) {
  return after >= before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

}  // namespace

void Heartbeats::note(const std::string& run, const Beat& beat) {
  const auto now = now_();
  const std::lock_guard lock(mutex_);
  if (beats_.size() >= most_beats) prune(now);
  HeardBeat& heard = beats_[{run, beat.rank}];
  if (heard.beat.attempt == beat.attempt && heard.beat.pid == beat.pid) {
    const double seconds = std::chrono::duration<double>(now - heard.at).count();
    heard.rx_bytes_per_s = rate(heard.beat.network_rx_bytes, beat.network_rx_bytes, seconds);
    heard.tx_bytes_per_s = rate(heard.beat.network_tx_bytes, beat.network_tx_bytes, seconds);
  }
  heard.beat = beat;
  heard.at = now;
}

void Heartbeats::prune(SteadyClock::time_point now) {
  std::erase_if(beats_, [&](const auto& entry) { return now - entry.second.at > recent; });
  if (beats_.size() >= most_beats) beats_.clear();
}

std::vector<HeardBeat> Heartbeats::of(const std::string& run, std::int64_t attempt) const {
  const std::lock_guard lock(mutex_);
  std::vector<HeardBeat> found;
  for (auto entry = beats_.lower_bound({run, 0}); entry != beats_.end() && entry->first.first == run; ++entry) {
    if (entry->second.beat.attempt == attempt) found.push_back(entry->second);
  }
  return found;
}

std::vector<Node> Heartbeats::nodes() const {
  const auto now = now_();
  const std::lock_guard lock(mutex_);
  std::map<std::string, Node> hosts;
  for (const auto& [key, heard] : beats_) {
    if (now - heard.at > remembered) continue;
    Node& node = hosts[heard.beat.host];
    if (node.host.empty() || heard.at > node.newest.at) node.newest = heard;
    node.host = heard.beat.host;
    if (now - heard.at <= recent) node.ranks.push_back({key.first, key.second, heard.beat.gpu});
  }
  std::vector<Node> nodes;
  for (auto& [name, node] : hosts) nodes.push_back(std::move(node));
  return nodes;
}

void Heartbeats::forget(const std::string& run) {
  const std::lock_guard lock(mutex_);
  beats_.erase(beats_.lower_bound({run, 0}), beats_.upper_bound({run, INT64_MAX}));
}

}  // namespace babelring::launch
