#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/json.h"
#include "nmt/ops/backend.h"
#include "tests/bench/peaks_output.h"

namespace babelring {

/// Calls of one op, added up.
struct OpTime {
  std::string name;
  std::int64_t calls = 0;
  double ms = 0, flops = 0, bytes = 0;
};

/// Adds up what an observed backend runs, by op, or by op and size.
class OpTimes : public OpObserver {
 public:
  explicit OpTimes(bool by_size) : by_size_(by_size) {}
  Watch watch() const override { return Watch::times; }
  void ran(const OpRun& run) override;

  /// Keeps of each op the shorter time of the two updates: the better guess where others disturb the machine.
  void keep_shorter(const OpTimes& other);

  /// Longest first.
  std::vector<OpTime> rows() const;
  double total_ms() const;

 private:
  bool by_size_;
  std::map<std::tuple<std::string, double, double>, OpTime, std::less<>> times_;
};

/// The least time that matmuls at the measured rate, or operands at the measured bandwidth, take: the longer of the
/// two. Operands that stay in a cache may beat it.
double floor_ms(const OpTime& op, const MachinePeaks& peaks, DType type);

/// A line an op: calls, time, share, GFLOP, GFLOP/s, GB/s, floor and gap.
void print_table(const OpTimes& times, const MachinePeaks& peaks, DType type);
json::array to_json(const OpTimes& times, const MachinePeaks& peaks, DType type);

}  // namespace babelring
