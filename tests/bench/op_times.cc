#include "tests/bench/op_times.h"

#include <fmt/format.h>

#include <algorithm>

#include "nmt/ops/linear.h"

namespace babelring {

void OpTimes::ran(const OpRun& run) {
  const OpCost& cost = run.cost;
  const std::string op(run.op);
  OpTime& time = by_size_ ? times_[{op, cost.flops, cost.bytes}] : times_[{op, 0, 0}];
  time.name = by_size_ ? fmt::format("{} {:.3g} GFLOP {:.3g} MB", op, cost.flops / 1e9, cost.bytes / 1e6) : op;
  ++time.calls;
  time.ms += std::chrono::duration<double, std::milli>(run.end - run.begin).count();
  time.flops += cost.flops;
  time.bytes += cost.bytes;
}

void OpTimes::keep_shorter(const OpTimes& other) {
  for (const auto& [key, theirs] : other.times_) {
    const auto [ours, added] = times_.emplace(key, theirs);
    if (theirs.ms < ours->second.ms) ours->second = theirs;
  }
}

std::vector<OpTime> OpTimes::rows() const {
  std::vector<OpTime> rows;
  for (const auto& [key, time] : times_) rows.push_back(time);
  std::sort(rows.begin(), rows.end(), [](const OpTime& a, const OpTime& b) { return a.ms > b.ms; });
  return rows;
}

double OpTimes::total_ms() const {
  double total = 0;
  for (const auto& [key, time] : times_) total += time.ms;
  return total;
}

double floor_ms(const OpTime& op, const MachinePeaks& peaks, DType type) {
  const bool bytes = op.name.starts_with(QuantizedLinear::name);  // other ops of a model of int8 compute in f32
  return 1e3 * std::max(op.flops / peaks.flops(bytes ? DType::int8 : type), op.bytes / peaks.triad_bytes);
}

void print_table(const OpTimes& times, const MachinePeaks& peaks, DType type) {
  const double total = times.total_ms();
  fmt::print("{:<46} {:>6} {:>9} {:>6} {:>9} {:>9} {:>8} {:>9} {:>9}\n", "op", "calls", "ms", "share", "GFLOP",
             "GFLOP/s", "GB/s", "floor ms", "gap ms");
  const auto line = [&](const OpTime& op, double floor) {
    fmt::print("{:<46} {:>6} {:>9.2f} {:>5.1f}% {:>9.2f} {:>9.1f} {:>8.1f} {:>9.2f} {:>9.2f}\n", op.name, op.calls,
               op.ms, 100 * op.ms / total, op.flops / 1e9, op.flops / op.ms / 1e6, op.bytes / op.ms / 1e6, floor,
               op.ms - floor);
  };
  OpTime sum{.name = "all ops"};
  double floors = 0;
  for (const OpTime& op : times.rows()) {
    const double floor = floor_ms(op, peaks, type);
    line(op, floor);
    floors += floor;
    sum.calls += op.calls;
    sum.ms += op.ms;
    sum.flops += op.flops;
    sum.bytes += op.bytes;
  }
  line(sum, floors);
}

json::array to_json(const OpTimes& times, const MachinePeaks& peaks, DType type) {
  json::array rows;
  for (const OpTime& op : times.rows()) {
    rows.push_back({{"op", op.name},
                    {"calls", op.calls},
                    {"ms", op.ms},
                    {"gflop", op.flops / 1e9},
                    {"megabytes", op.bytes / 1e6},
                    {"floor_ms", floor_ms(op, peaks, type)}});
  }
  return rows;
}

}  // namespace babelring
