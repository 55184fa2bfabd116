#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

}  // namespace babelring
