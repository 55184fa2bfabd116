#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lab/timeline/rank_events.h"
#include "lab/timeline/trace_file.h"

namespace babelring {

/// All runs of one op in layers that differ only by their number, over all ranks. Of ops without a layer: all runs with
/// equal shapes.
struct OpTotal {
  std::string name, layer;  // layer: "encoder.*.attention.qkv"
  std::string shapes;       // of the fields that have the same shape in all runs: "weight [512, 512]"
  std::int64_t calls = 0;
  double ms = 0;                        // in total
  std::optional<double> gflop_per_s;    // none: no matmul
  std::optional<double> share_of_peak;  // of TimelineSummary::peak_gflop_per_s, 0 to 1
};

/// The rank that asked last for most of an update's collectives.
struct WaitedFor {
  std::int64_t update = 0;
  int rank = 0;
  double waited_ms = 0;  // by the other ranks together, for collectives that this rank asked for last
};

struct TimelineSummary {
  std::vector<RankSplit> ranks;
  std::vector<OpTotal> ops;        // the ten longest
  double peak_gflop_per_s = 0;     // of the fastest call of any op
  std::vector<WaitedFor> waiting;  // by update; empty with one rank
};

TimelineSummary summarize(const TraceFile& trace);

}  // namespace babelring
