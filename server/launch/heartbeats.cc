#include "server/launch/heartbeats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

namespace babelring::launch {
namespace {

constexpr auto remembered = std::chrono::hours(24);
constexpr auto recent = std::chrono::minutes(1);
constexpr auto min_between_samples =
    std::chrono::milliseconds(900);  // ranks report each second, or a little more often
constexpr std::size_t max_replaced = 64;
constexpr int forgotten_at_once = 4;  // silent runs dropped per heartbeat; more than one, so the total shrinks

double rate(std::int64_t before, std::int64_t after, double seconds) {
  return after >= before && seconds > 0 ? static_cast<double>(after - before) / seconds : 0;
}

/// One value of each sample, rounded to whole numbers or `per_unit` parts of one.
json::array series_of(const std::vector<Sample>& samples, float Sample::* member, double per_unit = 1) {
  json::array values;
  for (const Sample& sample : samples) {
    const double value = static_cast<double>(sample.*member) * per_unit;
    if (!std::isfinite(value)) {
      values.emplace_back(nullptr);
    } else if (per_unit == 1) {
      values.emplace_back(static_cast<std::int64_t>(value));
    } else {
      values.emplace_back(std::round(value) / per_unit);
    }
  }
  return values;
}

json::array seconds_of(const std::vector<Sample>& samples, SteadyClock::time_point until) {
  json::array seconds;
  for (const Sample& sample : samples) {
    seconds.emplace_back(std::round(std::chrono::duration<double>(sample.at - until).count() * 10) / 10);
  }
  return seconds;
}

json::object host_item(const BlackBox::Rank& rank, SteadyClock::time_point until) {
  const Beat& beat = rank.newest;
  json::object host = {
      {"host", beat.host},
      {"memory_limit_bytes", beat.memory_limit_bytes > 0 ? beat.memory_limit_bytes : beat.memory_bytes},
      {"processors", beat.processors},
      {"seconds", seconds_of(rank.samples, until)},
      {"memory_left_bytes", series_of(rank.samples, &Sample::memory_left_bytes)},
      {"load", series_of(rank.samples, &Sample::load, 100)},
      {"temperature_celsius", nullptr}};
  const bool warm = std::any_of(rank.samples.begin(), rank.samples.end(),
                                [](const Sample& sample) { return !std::isnan(sample.temperature_celsius); });
  if (warm) host["temperature_celsius"] = series_of(rank.samples, &Sample::temperature_celsius, 10);
  return host;
}

}  // namespace

json::object to_json(const BlackBox& box) {
  std::map<std::string, const BlackBox::Rank*> hosts;
  json::array ranks, of_hosts;
  for (const BlackBox::Rank& rank : box.ranks) {
    const BlackBox::Rank*& known = hosts[rank.newest.host];
    const auto left = [](const BlackBox::Rank& each) { return each.samples.back().memory_left_bytes; };
    if (known == nullptr || left(rank) < left(*known)) known = &rank;
    ranks.push_back({{"rank", rank.rank},
                     {"host", rank.newest.host},
                     {"update", rank.newest.update},
                     {"seconds", seconds_of(rank.samples, box.until)},
                     {"resident_bytes", series_of(rank.samples, &Sample::resident_bytes)}});
  }
  for (const auto& [name, rank] : hosts) of_hosts.push_back(host_item(*rank, box.until));
  return {{"hosts", std::move(of_hosts)},
          {"ranks", std::move(ranks)},
          {"ranks_left_out", static_cast<std::int64_t>(box.left_out)}};
}

store::BlackBoxRow Heartbeats::row_of(const BlackBox& box) const {
  const auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now_() - box.until);
  return {.attempt = box.attempt, .until_ms = wall_time_ms() - age.count(), .content = to_text(to_json(box))};
}

bool Heartbeats::record(const std::string& run, const Beat& beat, const Source& source) {
  const auto now = std::min(beat.arrived.value_or(SteadyClock::time_point::max()), now_());
  const std::lock_guard lock(mutex_);
  forget_silent(now);
  Run& known = run_named(run, source.token);
  known.at = now;
  const bool awaited = !known.taken && known.sampled_ranks > 0 && beat.attempt <= known.attempt;
  note_attempt(run, known, beat.attempt);
  Rank& rank = rank_of(known, beat.rank);
  ReceivedHeartbeat& heard = rank.heard;
  if (heard.beat.attempt == beat.attempt && heard.beat.pid == beat.pid) {
    const double seconds = std::chrono::duration<double>(now - heard.at).count();
    heard.rx_bytes_per_s = rate(heard.beat.network_rx_bytes, beat.network_rx_bytes, seconds);
    heard.tx_bytes_per_s = rate(heard.beat.network_tx_bytes, beat.network_tx_bytes, seconds);
  }
  heard.beat = beat;
  heard.at = now;
  sample(known, rank);
  make_room(run, known, source.ranks > 0 ? static_cast<std::size_t>(source.ranks) : max_ranks);
  return !awaited;
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

Heartbeats::Rank& Heartbeats::rank_of(Run& run, std::int64_t number) {
  const auto [entry, fresh] = run.ranks.try_emplace(number);
  Rank& rank = entry->second;
  if (fresh) {
    rank.in_run = run.oldest_first.insert(run.oldest_first.end(), number);
    ++tokens_.at(run.token).ranks;
  } else {
    run.oldest_first.splice(run.oldest_first.end(), run.oldest_first, rank.in_run);
  }
  return rank;
}

/// A newer attempt ends the one before: its ranks report no more, or end at their next heartbeat.
void Heartbeats::note_attempt(const std::string& name, Run& run, std::int64_t attempt) {
  if (attempt <= run.attempt) return;
  if (!run.taken && run.sampled_ranks > 0) replaced_.push_back(box_of(name, run));
  if (replaced_.size() > max_replaced) replaced_.pop_front();
  for (auto& [number, rank] : run.ranks) rank.samples.clear();
  run.sampled_ranks = 0;
  run.attempt = attempt;
}

void Heartbeats::sample(Run& run, Rank& rank) {
  const Beat& beat = rank.heard.beat;
  if (beat.attempt < run.attempt) return;
  run.taken = false;
  std::vector<Sample>& samples = rank.samples;
  if (samples.empty() && run.sampled_ranks >= max_sampled_ranks) return;
  if (samples.empty()) ++run.sampled_ranks;
  if (!samples.empty() && rank.heard.at - samples.back().at < min_between_samples) return;
  if (samples.size() >= BlackBox::max_samples) samples.erase(samples.begin());
  const bool limited = beat.memory_limit_bytes > 0;
  samples.push_back(
      {.at = rank.heard.at,
       .update = static_cast<std::uint32_t>(std::min<std::int64_t>(beat.update, UINT32_MAX)),
       .resident_bytes = static_cast<float>(beat.resident_bytes),
       .memory_left_bytes = static_cast<float>(limited ? beat.memory_left_bytes : beat.memory_available_bytes),
       .load = static_cast<float>(beat.load),
       .temperature_celsius = static_cast<float>(beat.temperature_celsius.value_or(NAN))});
}

BlackBox Heartbeats::box_of(const std::string& name, const Run& run) {
  BlackBox box{.run = name, .attempt = run.attempt, .until = {}, .ranks = {}};
  for (const auto& [number, rank] : run.ranks) {
    if (rank.samples.empty()) continue;
    box.until = std::max(box.until, rank.samples.back().at);
    box.ranks.push_back({number, rank.heard.beat, rank.samples});
  }
  if (box.ranks.size() <= BlackBox::max_ranks) return box;
  const auto end = box.ranks.begin() + BlackBox::max_ranks;
  const auto silent_first = [](const BlackBox::Rank& a, const BlackBox::Rank& b) {
    return a.samples.back().at < b.samples.back().at;
  };
  std::partial_sort(box.ranks.begin(), end, box.ranks.end(), silent_first);
  box.left_out = static_cast<std::size_t>(box.ranks.end() - end);
  box.ranks.erase(end, box.ranks.end());
  std::sort(box.ranks.begin(), box.ranks.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return box;
}

std::optional<BlackBox> Heartbeats::black_box(const std::string& run, std::int64_t attempt) const {
  const std::lock_guard lock(mutex_);
  const auto known = runs_.find(run);
  if (known == runs_.end() || known->second.attempt != attempt) return std::nullopt;
  BlackBox box = box_of(run, known->second);
  return box.ranks.empty() ? std::nullopt : std::optional(std::move(box));
}

std::vector<BlackBox> Heartbeats::take_ended(std::chrono::seconds silence) {
  const auto now = now_();
  const std::lock_guard lock(mutex_);
  std::vector<BlackBox> ended(std::make_move_iterator(replaced_.begin()), std::make_move_iterator(replaced_.end()));
  replaced_.clear();
  for (auto& [name, run] : runs_) {
    if (run.taken || run.sampled_ranks == 0 || now - run.at < silence) continue;
    run.taken = true;
    if (BlackBox box = box_of(name, run); !box.ranks.empty()) ended.push_back(std::move(box));
  }
  return ended;
}

bool Heartbeats::awaits_ends() const {
  const std::lock_guard lock(mutex_);
  return std::any_of(runs_.begin(), runs_.end(), [](const auto& entry) { return !entry.second.taken; });
}

void Heartbeats::make_room(const std::string& name, Run& run, std::size_t ranks) {
  Token& token = tokens_.at(run.token);
  const auto drop_oldest_rank = [&] {
    const auto oldest = run.ranks.find(run.oldest_first.front());
    if (!oldest->second.samples.empty()) --run.sampled_ranks;
    run.ranks.erase(oldest);
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
