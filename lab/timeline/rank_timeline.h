#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/records/records.h"
#include "base/span_log.h"
#include "nmt/comm/communicator.h"
#include "nmt/ops/op_fields.h"

namespace babelring {

/// A field of an op with its shape.
struct NamedShape {
  std::string_view name;
  Shape shape;
};

/// One run of an op.
struct TimedOp {
  std::string_view name;
  std::string layer;  // see OpPlace::layer(); empty: none
  OpCost cost;
  SteadyClock::time_point begin, end;
  std::size_t first_shape = 0, shapes = 0;  // in RankTimeline::shapes
};

/// A range of ops: a layer or a part of the update.
struct TimedRange {
  std::string name;
  SteadyClock::time_point begin, end;
};

struct TracedUpdate {
  SteadyClock::time_point begin, end;
  StepRecord record;
  std::int64_t bytes_sent = 0;  // by this rank from the start of the trace to the update's end
};

/// Activities of one rank during the updates of a trace, by its own clock.
struct RankTimeline {
  int rank = 0;
  std::string host;
  bool device = false;                // ops ran on a device, else on the main thread
  std::vector<TracedUpdate> updates;  // in order
  std::vector<TimedOp> ops;           // in order; empty if ops were not recorded
  std::vector<NamedShape> shapes;
  std::vector<TimedRange> ranges;  // a range comes after the ranges inside of it
  std::vector<LoggedSpan> spans;   // of the threads main, data and reporter
  std::vector<CommSpan> collectives;
};

}  // namespace babelring
