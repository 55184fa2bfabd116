#include "insight/steps.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

namespace babelring::verdict {

double number_in(const std::string& text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::string config_scalar(std::string_view yaml, std::string_view dotted_key) {
  std::size_t depth = 0;  // matched levels of the key
  while (!yaml.empty()) {
    const auto end = yaml.find('\n');
    std::string_view line = yaml.substr(0, end);
    yaml.remove_prefix(end == std::string_view::npos ? yaml.size() : end + 1);
    const auto indent = line.find_first_not_of(' ');
    if (indent == std::string_view::npos || indent % 2 != 0) continue;
    depth = std::min(depth, indent / 2);
    if (indent / 2 != depth) continue;
    std::string_view name = dotted_key;  // rest of the key at this depth
    for (std::size_t level = 0; level < depth; ++level) name.remove_prefix(name.find('.') + 1);
    name = name.substr(0, name.find('.'));
    line.remove_prefix(indent);
    if (!line.starts_with(name) || line.substr(name.size(), 1) != ":") continue;
    line.remove_prefix(name.size() + 1);
    const bool leaf = static_cast<std::size_t>(std::count(dotted_key.begin(), dotted_key.end(), '.')) == depth;
    if (!leaf) {
      ++depth;
      continue;
    }
    const auto first = line.find_first_not_of(" \"");
    const auto last = line.find_last_not_of(" \"\r");
    return first == std::string_view::npos ? std::string() : std::string(line.substr(first, last - first + 1));
  }
  return {};
}

BucketSize bucket_size(const std::string& config, double reported_mb, bool on_gpus) {
  const std::string configured = config_scalar(config, "communication.bucket_mb");
  if (const double mb = number_in(configured); mb > 0) return {mb, BucketSize::Source::configured};
  if (reported_mb > 0) return {reported_mb, BucketSize::Source::chosen};
  if (configured == "auto" && !on_gpus) return {host_bucket_mb, BucketSize::Source::assumed};
  return {};
}

const HostLoad* contended_host(const std::vector<HostLoad>& hosts) {
  const auto relative = [](const HostLoad& host) { return host.others() / static_cast<double>(host.processors); };
  const HostLoad* worst = nullptr;
  for (const HostLoad& host : hosts) {
    const auto processors = static_cast<double>(host.processors);
    // More threads are ready to run than there are processors, and most are not the run's.
    const bool contended = host.processors > 0 && host.load > processors && host.others() >= processors / 2 &&
                           host.others() > host.own_threads;
    if (contended && (worst == nullptr || relative(host) > relative(*worst))) worst = &host;
  }
  return worst;
}

std::string optimizer_placement(const std::string& config, const std::string& reported) {
  if (!reported.empty()) return reported;
  const std::string configured = config_scalar(config, "communication.optimizer");
  return configured == "auto" ? "" : configured;
}

namespace {

constexpr std::size_t max_updates = 128;
constexpr std::int64_t max_warm_up = 20, min_warm_up = 3;

/// A rank's step of an update.
struct RankStep {
  std::size_t rank;  // index into Input::ranks
  const Step* step;
};
/// One update's steps, by rank.
using Row = std::vector<RankStep>;

double own_ms(const Step& step) {
  return step.times.step - step.times.exposed_communication;
}

bool sound(const Step& step) {
  return step.times.step > 0 && std::isfinite(step.times.step) && std::isfinite(step.times.sum_of_parts());
}

/// Updates for which enough ranks reported finite times.
std::map<std::int64_t, Row> common_updates(const std::vector<RankSteps>& ranks) {
  std::map<std::int64_t, Row> rows;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const Step& step : ranks[rank].steps) {
      if (sound(step)) rows[step.update].push_back({rank, &step});
    }
  }
  std::erase_if(rows, [&](const auto& row) { return row.second.size() < enough_ranks(ranks.size()); });
  return rows;
}

template <class Member>
double median_without(const Row& row, std::size_t left_out, Member member) {
  std::vector<double> values;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i != left_out || row.size() == 1) values.push_back(member(*row[i].step));
  }
  return median(std::move(values));
}

UpdateSplit split(std::int64_t update, const Row& row) {
  UpdateSplit parts;
  parts.update = update;
  std::size_t slowest = 0;
  for (std::size_t i = 1; i < row.size(); ++i) {
    if (own_ms(*row[i].step) > own_ms(*row[slowest].step)) slowest = i;
  }
  parts.last_rank = row[slowest].rank;
  const Step& last = *row[slowest].step;
  const auto others = [&](auto ms) { return median_without(row, slowest, ms); };
  for (const StepTimesMember& member : step_times_members) {
    parts.times.*member.value = others([&](const Step& step) { return step.times.*member.value; });
  }
  const double waiting_of_others = parts.times.exposed_communication;
  parts.times.step = last.times.step;
  parts.times.exposed_communication = last.times.exposed_communication;
  parts.times.other = std::max(parts.times.other, 0.0);
  parts.skipped = last.skipped;
  if (row.size() == 1) return parts;
  // Lateness counts only while the others waited for it.
  const double late = own_ms(last) - others(own_ms);
  const double waited = waiting_of_others - last.times.exposed_communication;
  parts.straggler_ms = std::clamp(std::min(late, waited), 0.0, last.times.step);
  parts.last_was_data = last.times.data - parts.times.data > late / 2;
  return parts;
}

std::set<std::int64_t> paused_updates(const Input& input) {
  std::set<std::int64_t> updates;
  for (const Pause& pause : input.pauses) updates.insert(pause.update);
  return updates;
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

std::vector<UpdateSplit> split_window(const Input& input) {
  auto rows = common_updates(input.ranks);
  if (rows.empty()) return {};
  const std::int64_t first = input.facts.first_update > 0 ? input.facts.first_update : rows.begin()->first;
  const std::int64_t seen = rows.rbegin()->first - first + 1;
  const std::int64_t warm_up = std::clamp(seen / 4, min_warm_up, max_warm_up);
  std::erase_if(rows, [&](const auto& row) { return row.first < first + warm_up; });

  const auto paused = paused_updates(input);
  const auto after_pause = [&](const auto& row) { return paused.contains(row.first - 1); };
  const auto quiet = rows.size() - static_cast<std::size_t>(std::count_if(rows.begin(), rows.end(), after_pause));
  if (quiet >= min_updates) std::erase_if(rows, after_pause);

  std::vector<UpdateSplit> window;
  window.reserve(rows.size());
  for (const auto& [update, row] : rows) window.push_back(split(update, row));
  if (window.size() > max_updates) {
    window.erase(window.begin(), window.end() - static_cast<std::ptrdiff_t>(max_updates));
  }
  return window;
}

StepTimes median_times(const std::vector<UpdateSplit>& window) {
  StepTimes times;
  for (const StepTimesMember& member : step_times_members) {
    times.*member.value = median_over(window, [&](const UpdateSplit& update) { return update.times.*member.value; });
  }
  return times;
}

PauseCost pause_cost(const Input& input, Pause::Kind kind) {
  std::vector<std::pair<std::int64_t, double>> pauses;  // update, ms
  for (const Pause& pause : input.pauses) {
    if (pause.kind != kind) continue;
    double ms = std::max(pause.seconds, 0.0) * 1000, gap = pause.gap_ms;
    if (std::isfinite(gap)) {
      for (const Pause& other : input.pauses) {  // pauses of both kinds after one update divide the gap
        if (other.update == pause.update && other.kind != kind) gap -= std::max(other.seconds, 0.0) * 1000;
      }
      // The recorded time starts when writing begins, after the weights have been copied.
      if (kind == Pause::Kind::checkpoint) ms = std::max(3 * ms, ms + 500);
      ms = std::clamp(gap, 0.0, ms);
    }
    pauses.emplace_back(pause.update, ms);
  }
  PauseCost cost;
  cost.count = pauses.size();
  if (pauses.empty()) return cost;
  double sum = 0;
  for (const auto& [update, ms] : pauses) sum += ms;
  cost.ms_each = sum / static_cast<double>(pauses.size());
  // With two or more pauses, their mean period; with one, the attempt's updates so far.
  const std::int64_t newest = pauses.back().first, oldest = pauses.front().first;
  if (newest > oldest) {
    cost.updates_between = static_cast<double>(newest - oldest) / static_cast<double>(pauses.size() - 1);
  } else {
    std::int64_t last = newest;
    for (const RankSteps& rank : input.ranks) {
      if (!rank.steps.empty()) last = std::max(last, rank.steps.back().update);
    }
    cost.updates_between = static_cast<double>(std::max<std::int64_t>(last - input.facts.first_update + 1, 1));
  }
  cost.ms_per_update = cost.ms_each / cost.updates_between;
  return cost;
}

double between_steps_ms(const Input& input) {
  if (input.ranks.empty()) return 0;
  const auto paused = paused_updates(input);
  std::vector<double> gaps;
  const auto& steps = input.ranks.front().steps;
  for (std::size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].update != steps[i - 1].update + 1 || paused.contains(steps[i - 1].update)) continue;
    gaps.push_back(static_cast<double>(steps[i].time_ms - steps[i - 1].time_ms) - steps[i].times.step);
  }
  const double typical = median(std::move(gaps));
  return std::isfinite(typical) && typical > 0 ? typical : 0;  // the clock may have been set back
}

}  // namespace babelring::verdict
