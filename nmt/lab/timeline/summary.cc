#include "nmt/lab/timeline/summary.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json_get.h"
#include "nmt/lab/timeline/trace_text.h"

namespace babelring {

namespace {

constexpr std::size_t longest_ops = 10;

RankShares shares_of(const TraceFile& trace, const TraceRank& rank) {
  ShareCounter counter(rank.device);
  for (const TraceEvent& event : trace.events) {
    if (event.rank != rank.rank || event.category == "op") continue;
    const std::int64_t bytes = event.category == "collective" ? get_integer(event.arguments, "bytes") : 0;
    counter.add(event.category, event.name, event.begin_us, event.end_us, bytes);
  }
  RankShares shares = counter.shares();
  shares.rank = rank.rank;
  shares.host = rank.host;
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
