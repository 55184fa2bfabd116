#include "server/events/metric_frames.h"

#include <algorithm>

#include "base/json.h"

namespace babelring::events {

std::size_t MetricFrames::Frame::bytes() const {
  std::size_t bytes = sizeof(Frame) + keys.size() * sizeof(std::string);
  for (const std::string& key : keys) bytes += key.size();
  return bytes + (steps.size() + times.size()) * sizeof(std::int64_t) + values.size() * sizeof(double);
}

bool MetricFrames::has_keys(const Frame& frame, const Metrics& metrics) {
  return std::equal(frame.keys.begin(), frame.keys.end(), metrics.begin(), metrics.end(),
                    [](const std::string& key, const auto& metric) { return key == metric.first; });
}

void MetricFrames::add(std::int64_t update, std::int64_t time_ms, const Metrics& metrics) {
  const bool fits = !frames_.empty() && has_keys(frames_.back(), metrics) &&
                    frames_.back().values.size() + metrics.size() <= max_frame_values;
  if (!fits) {
    Frame& fresh = frames_.emplace_back();
    for (const auto& [key, value] : metrics) fresh.keys.push_back(key);
    bytes_ += fresh.bytes();
  }
  Frame& frame = frames_.back();
  frame.steps.push_back(update);
  frame.times.push_back(time_ms);
  for (const auto& [key, value] : metrics) frame.values.push_back(value);
  bytes_ += 2 * sizeof(std::int64_t) + metrics.size() * sizeof(double);
}

void MetricFrames::append(MetricFrames later) {
  if (!frames_.empty() && !later.frames_.empty()) {
    Frame& last = frames_.back();
    const Frame& next = later.frames_.front();
    if (last.keys == next.keys && last.values.size() + next.values.size() <= max_frame_values) {
      const std::size_t before = last.bytes();
      last.steps.insert(last.steps.end(), next.steps.begin(), next.steps.end());
      last.times.insert(last.times.end(), next.times.begin(), next.times.end());
      last.values.insert(last.values.end(), next.values.begin(), next.values.end());
      bytes_ += last.bytes() - before;
      later.bytes_ -= next.bytes();
      later.frames_.pop_front();
    }
  }
  bytes_ += later.bytes_;
  for (Frame& frame : later.frames_) frames_.push_back(std::move(frame));
}

std::string MetricFrames::take_text(const std::string& run, std::int64_t attempt, std::int64_t rank) {
  const Frame frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= frame.bytes();
  json::object series;
  for (std::size_t key = 0; key < frame.keys.size(); ++key) {
    json::array column;
    column.reserve(frame.steps.size());
    for (std::size_t at = key; at < frame.values.size(); at += frame.keys.size()) column.push_back(frame.values[at]);
    series[frame.keys[key]] = std::move(column);
  }
  return to_text(json::object{{"run", run},
                              {"attempt", attempt},
                              {"rank", rank},
                              {"step", json::array(frame.steps.begin(), frame.steps.end())},
                              {"time_ms", json::array(frame.times.begin(), frame.times.end())},
                              {"series", std::move(series)}});
}

}  // namespace babelring::events
