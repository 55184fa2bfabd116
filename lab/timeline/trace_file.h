#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace babelring {

/// A complete event of a trace file.
struct TraceEvent {
  int rank = 0, thread = 0;  // trace_thread
  std::string name, category;
  double begin_us = 0, end_us = 0;
  json::object arguments;

  double us() const { return end_us - begin_us; }
};

struct TraceRank {
  int rank = 0;
  std::string host;
  bool device = false;        // ops ran on a device
  double clock_error_us = 0;  // bound on the error of this rank's times
};

/// A trace file as merge_ranks() writes it, without metadata, counters and arrows.
struct TraceFile {
  std::string run;
  std::int64_t first_update = 0, updates = 0;
  std::vector<TraceRank> ranks;
  std::vector<TraceEvent> events;
};

/// Reads a trace file. Throws Failure if it is damaged or not a trace of this program.
TraceFile read_trace(const std::filesystem::path& file);

/// The newest trace file in RUN/lab. Throws UsageFailure if there is none.
std::filesystem::path newest_trace(const std::filesystem::path& run);

}  // namespace babelring
