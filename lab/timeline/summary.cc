#include "lab/timeline/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "lab/timeline/trace_file.h"

namespace babelring {

namespace {

constexpr std::size_t longest_ops = 10;

RankSplit split_of(const TraceFile& trace, const TraceRank& rank) {
  SplitCounter counter(rank.device);
  for (const TraceEvent& event : trace.events) {
    if (event.rank != rank.rank || event.category == "op") continue;
    const std::int64_t bytes = event.category == "collective" ? get_integer(event.arguments, "bytes") : 0;
    counter.add(event.category, event.name, event.begin_us, event.end_us, bytes);
  }
  RankSplit split = counter.split();
  split.rank = rank.rank;
  split.host = rank.host;
  return split;
}

/// The shapes of an op's fields, "name [2, 3]", in their order.
std::vector<std::string> shapes_of(const TraceEvent& op) {
  std::vector<std::string> texts;
  const json::object* shapes = get_object(op.arguments, "shapes");
  if (shapes == nullptr) return texts;
  for (const auto& [name, shape] : *shapes) {
    if (shape.is_string()) texts.push_back(std::string(name) + " " + std::string(shape.get_string()));
  }
  return texts;
}

/// "encoder.*.attention.qkv" of encoder.3.attention.qkv.
std::string without_number(const std::string& layer) {
  std::string pattern;
  for (const char letter : layer) {
    const bool digit = letter >= '0' && letter <= '9';
    if (!digit) pattern += letter;
    if (digit && !pattern.ends_with('*')) pattern += '*';
  }
  return pattern;
}

/// The runs of an op that make one OpTotal.
struct OpSum {
  std::int64_t calls = 0;
  double us = 0, gflop = 0;
  std::vector<std::string> shapes;  // that all runs have in common

  void add(const TraceEvent& run) {
    const std::vector<std::string> own = shapes_of(run);
    if (calls++ == 0) shapes = own;
    std::erase_if(shapes, [&own](const std::string& shape) { return std::ranges::count(own, shape) == 0; });
    us += run.us();
    gflop += get_number(run.arguments, "gflop").value_or(0);
  }
};

std::vector<OpTotal> op_totals(const TraceFile& trace, double& peak) {
  std::map<std::tuple<std::string, std::string, std::string>, OpSum> sums;  // by name, layer and, without one, shapes
  for (const TraceEvent& event : trace.events) {
    if (event.category != "op") continue;
    const std::string layer = without_number(get_text(event.arguments, "layer"));
    sums[{event.name, layer, layer.empty() ? fmt::format("{}", fmt::join(shapes_of(event), ", ")) : ""}].add(event);
    peak = std::max(peak, get_number(event.arguments, "gflop_per_s").value_or(0));
  }
  std::vector<OpTotal> totals;
  for (const auto& [op, sum] : sums) {
    OpTotal total{.name = std::get<0>(op),
                  .layer = std::get<1>(op),
                  .shapes = fmt::format("{}", fmt::join(sum.shapes, ", ")),
                  .calls = sum.calls,
                  .ms = sum.us / 1e3};
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
  for (const TraceRank& rank : trace.ranks) summary.ranks.push_back(split_of(trace, rank));
  summary.ops = op_totals(trace, summary.peak_gflop_per_s);
  if (trace.ranks.size() < 2) return summary;
  for (const TraceEvent& event : trace.events) {
    if (event.category == "update" && event.rank == 0) summary.waiting.push_back(waited_for(trace, event));
  }
  return summary;
}

}  // namespace babelring
