#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace babelring::events {

/// Steps of one rank in order of arrival, divided into frames for event streams. All steps of a frame have the same
/// keys, so a key takes memory only where it has a value. A frame has at most `max_frame_values` values, but at least
/// one step, so that no event is large.
class MetricFrames {
 public:
  using Metrics = std::vector<std::pair<std::string, double>>;
  static constexpr std::size_t max_frame_values = 1024;

  void add(std::int64_t update, std::int64_t time_ms, const Metrics& metrics);
  /// Adds later steps of the same rank.
  void append(MetricFrames later);
  bool empty() const { return frames_.empty(); }
  std::size_t size() const { return frames_.size(); }
  /// Approximate memory of the frames.
  std::size_t bytes() const { return bytes_; }
  /// Removes the oldest frame and returns its event data, the JSON of docs/api.md. Call only while not empty.
  std::string take_text(const std::string& run, std::int64_t attempt, std::int64_t rank);

 private:
  struct Frame {
    std::vector<std::string> keys;
    std::vector<std::int64_t> steps, times;
    std::vector<double> values;  // by step, then in the order of the keys
    std::size_t bytes() const;
  };
  static bool has_keys(const Frame& frame, const Metrics& metrics);

  std::deque<Frame> frames_;
  std::size_t bytes_ = 0;
};

}  // namespace babelring::events
