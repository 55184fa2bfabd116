#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace babelring {

/// The threads of a rank in a trace file. Collectives overlap, so they fill as many threads as needed, from
/// `communication` on.
namespace trace_thread {
inline constexpr int main = 1, device = 2, data = 3, reporter = 4, communication = 10;
}

/// A complete event.
struct TraceSlice {
  int thread = 0;
  std::string_view name, category;
  double begin_us = 0, end_us = 0;
  std::string arguments = {};  // JSON members: "\"bytes\":12"
};

/// Writes the events of one process in Chrome's trace-event format, as elements of a JSON array: each ends with a comma
/// and a newline.
/// Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
class TraceText {
 public:
  explicit TraceText(int process) : process_(process) {}

  void name_process(std::string_view name);
  void name_thread(int thread, std::string_view name);
  void add(const TraceSlice& slice);
  /// A counter with several series, drawn on top of each other.
  void count(std::string_view name, double us, std::span<const std::pair<std::string, double>> series);
  /// An arrow from the slice that contains (thread, us) to the slice of end_arrow() with the same `id`.
  void begin_arrow(std::string_view id, int thread, double us);
  void end_arrow(std::string_view id, int thread, double us);

  const std::string& text() const { return text_; }

 private:
  void arrow(std::string_view phase, std::string_view id, int thread, double us);
  void metadata(std::string_view what, int thread, std::string_view member, std::string_view json);

  int process_;
  std::string text_;
};

/// A JSON string.
std::string json_string(std::string_view text);

/// A complete event of a trace file.
struct TraceEvent {
  int rank = 0, thread = 0;  // trace_thread
  std::string name, category;
  double begin_us = 0, end_us = 0;
  json::object arguments;

  double us() const { return end_us - begin_us; }
};

/// A rank as the metadata of a trace file describes it.
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
