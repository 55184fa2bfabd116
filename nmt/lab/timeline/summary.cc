#include "nmt/lab/timeline/summary.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json_get.h"
#include "nmt/lab/timeline/trace_text.h"

namespace babelring {

namespace {

constexpr std::size_t longest_ops = 10;

/// A set of times in us.
class Times {
 public:
  void add(double begin, double end) {
    if (end > begin) parts_.emplace_back(begin, end);
  }
  void add(const TraceEvent& event) { add(event.begin_us, event.end_us); }
  /// Length in ms; overlapping parts count once.
  double ms() const {
    double sum = 0;
    for (const auto& [begin, end] : joined()) sum += end - begin;
    return sum / 1e3;
  }
  /// What is in both.
  Times within(const Times& other) const {
    Times both;
    const auto ours = joined(), theirs = other.joined();
    for (auto a = ours.begin(), b = theirs.begin(); a != ours.end() && b != theirs.end();) {
      both.add(std::max(a->first, b->first), std::min(a->second, b->second));
      (a->second < b->second ? a : b)++;
    }
    return both;
  }

 private:
  std::vector<std::pair<double, double>> joined() const {
    std::vector<std::pair<double, double>> sorted = parts_, whole;
    std::ranges::sort(sorted);
    for (const auto& part : sorted) {
      if (!whole.empty() && part.first <= whole.back().second) {
        whole.back().second = std::max(whole.back().second, part.second);
      } else {
        whole.push_back(part);
      }
    }
    return whole;
  }
  std::vector<std::pair<double, double>> parts_;
};

/// The times of one rank.
struct RankTimes {
  Times updates, data, exposed, compute, all_reduces;

  RankTimes(const TraceFile& trace, const TraceRank& rank) {
    for (const TraceEvent& event : trace.events) {
      if (event.rank == rank.rank) sort(event, rank.device);
    }
  }

 private:
  /// A device computes beside the main thread: its ranges tell what it did.
  void sort(const TraceEvent& event, bool device) {
    const bool phase = event.category == "phase", range = device && event.category == "range";
    if (event.category == "update") updates.add(event);
    if (event.category == "collective" && get_integer(event.arguments, "bytes") > 0) all_reduces.add(event);
    if (phase && event.name == "data") data.add(event);
    if (phase && !device && event.name == "communication") exposed.add(event);
    if (range && event.name == "gradient_sum") exposed.add(event);
    const bool computes = event.name != "data" && event.name != "communication" && event.name != "other";
    if (phase && !device && computes) compute.add(event);
    if (range && event.name != "gradient_sum" && event.name != "data") compute.add(event);
  }
};

RankShares shares_of(const TraceFile& trace, const TraceRank& rank) {
  const RankTimes times(trace, rank);
  RankShares shares{.rank = rank.rank, .host = rank.host};
  const Times all_reduces = times.all_reduces.within(times.updates);
  shares.total_ms = times.updates.ms();
  shares.exposed_ms = times.exposed.within(times.updates).ms();
  shares.compute_ms = times.compute.within(times.updates).ms();
  // A device computes on while the host waits for data.
  shares.data_ms = std::clamp(shares.total_ms - shares.exposed_ms - shares.compute_ms, 0.0, times.data.ms());
  shares.other_ms = shares.total_ms - shares.exposed_ms - shares.compute_ms - shares.data_ms;
  shares.hidden_ms = all_reduces.ms() - all_reduces.within(times.exposed).ms();
  if (all_reduces.ms() > 0) shares.overlap = shares.hidden_ms / all_reduces.ms();
  return shares;
}

std::string shapes_of(const TraceEvent& op) {
  std::string text;
  const json::object* shapes = get_object(op.arguments, "shapes");
  if (shapes == nullptr) return text;
  for (const auto& [name, shape] : *shapes) {
    if (!shape.is_string()) continue;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + std::string(shape.get_string());
  }
  return text;
}

std::vector<OpTotal> op_totals(const TraceFile& trace, double& peak) {
  struct Sum {
    std::int64_t calls = 0;
    double us = 0, gflop = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  for (const TraceEvent& event : trace.events) {
    if (event.category != "op") continue;
    Sum& sum = sums[{event.name, shapes_of(event)}];
    ++sum.calls;
    sum.us += event.us();
    sum.gflop += get_number(event.arguments, "gflop").value_or(0);
    peak = std::max(peak, get_number(event.arguments, "gflop_per_s").value_or(0));
  }
  std::vector<OpTotal> totals;
  for (const auto& [op, sum] : sums) {
    OpTotal total{.name = op.first, .shapes = op.second, .calls = sum.calls, .ms = sum.us / 1e3};
    if (sum.gflop > 0 && sum.us > 0) {
      total.gflop_per_s = sum.gflop / sum.us * 1e6;
      total.share_of_peak = *total.gflop_per_s / peak;
    }
    totals.push_back(std::move(total));
  }
  std::ranges::stable_sort(totals, std::greater(), &OpTotal::ms);
  totals.resize(std::min(totals.size(), longest_ops));
  return totals;
}

/// By collective: when each rank asked for it.
using Asked = std::map<std::int64_t, std::vector<std::pair<double, int>>>;

Asked asked_within(const TraceFile& trace, const TraceEvent& update) {
  Asked asked;
  for (const TraceEvent& event : trace.events) {
    const double us = get_number(event.arguments, "asked_us").value_or(-1);
    if (event.category != "collective" || us < update.begin_us || us > update.end_us) continue;
    asked[get_integer(event.arguments, "number")].emplace_back(us, event.rank);
  }
  return asked;
}

/// `update` is rank 0's slice of the update.
WaitedFor waited_for(const TraceFile& trace, const TraceEvent& update) {
  std::map<int, double> caused;  // by rank, in us
  for (const auto& [number, ranks] : asked_within(trace, update)) {
    const auto [last, rank] = *std::ranges::max_element(ranks);
    for (const auto& [us, other] : ranks) caused[rank] += last - us;
  }
  WaitedFor result{.update = get_integer(update.arguments, "update")};
  for (const auto& [rank, us] : caused) {
    if (us / 1e3 > result.waited_ms) result = {result.update, rank, us / 1e3};
  }
  return result;
}

}  // namespace

TimelineSummary summarize(const TraceFile& trace) {
  TimelineSummary summary;
  for (const TraceRank& rank : trace.ranks) summary.ranks.push_back(shares_of(trace, rank));
  summary.ops = op_totals(trace, summary.peak_gflop_per_s);
  if (trace.ranks.size() < 2) return summary;
  for (const TraceEvent& event : trace.events) {
    if (event.category == "update" && event.rank == 0) summary.waiting.push_back(waited_for(trace, event));
  }
  return summary;
}

}  // namespace babelring
