#include "server/events/event_rings.h"

#include <algorithm>

#include "base/json.h"

namespace babelring::events {

bool Audience::OfRun::wants(const std::string& topic) const {
  for (const std::string& name : {topic, std::string()}) {
    const auto found = topics.find(name);
    if (found == topics.end()) continue;
    if (found->second.listeners > 0 || found->second.until > SteadyClock::now()) return true;
  }
  return false;
}

std::set<std::string> Audience::topics_of(const Listener& listener) {
  return listener.topics.empty() ? std::set<std::string>{""} : listener.topics;
}

void Audience::add(Listener* listener) {
  forget_runs();
  OfRun& run = runs_[listener->run];
  run.listeners.insert(listener);
  for (const std::string& topic : topics_of(*listener)) ++run.topics[topic].listeners;
}

void Audience::remove(Listener* listener) {
  const auto found = runs_.find(listener->run);
  if (found == runs_.end() || found->second.listeners.erase(listener) == 0) return;
  const auto until = SteadyClock::now() + linger_;
  for (const std::string& topic : topics_of(*listener)) {
    Interest& interest = found->second.topics[topic];
    --interest.listeners;
    interest.until = until;
  }
  lingering_.emplace_back(until, listener->run);
  forget_runs();
}

void Audience::forget_runs() {
  const auto now = SteadyClock::now();
  while (!lingering_.empty() && (lingering_.front().first <= now || lingering_.size() > max_lingering)) {
    const auto found = runs_.find(lingering_.front().second);
    if (found != runs_.end()) {
      std::erase_if(found->second.topics, [&](const auto& topic) {
        return topic.second.listeners == 0 && topic.second.until <= lingering_.front().first;
      });
      if (found->second.topics.empty()) runs_.erase(found);
    }
    lingering_.pop_front();
  }
}

bool Audience::wants(const std::string& run, const std::string& topic) const {
  for (const std::string& name : {run, std::string()}) {
    const auto found = runs_.find(name);
    if (found != runs_.end() && found->second.wants(topic)) return true;
  }
  return false;
}

void Audience::visit(const std::string& run, const std::string& topic,
                     const std::function<void(Listener&)>& visit) const {
  for (const std::string& name : {run, std::string()}) {
    const auto found = runs_.find(name);
    if (found == runs_.end()) continue;
    for (Listener* listener : found->second.listeners) {
      if (listener->wants(topic)) visit(*listener);
    }
  }
}

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

void MissedEvents::record(const std::string& run, const std::string& topic, std::uint64_t sequence) {
  std::uint64_t& of_topic = by_topic_[topic];
  of_topic = std::max(of_topic, sequence);
  const auto [entry, fresh] = newest_.try_emplace({run, topic}, 0);
  if (entry->second >= sequence) return;
  if (!fresh) by_age_.erase(entry->second);
  entry->second = sequence;
  by_age_.emplace(sequence, entry->first);
  if (newest_.size() <= max_entries) return;
  floor_ = by_age_.begin()->first;
  newest_.erase(by_age_.begin()->second);
  by_age_.erase(by_age_.begin());
}

std::uint64_t MissedEvents::newest(const std::string& run, const std::set<std::string>& topics) const {
  std::uint64_t newest = 0;
  if (run.empty()) {
    for (const auto& [topic, sequence] : by_topic_) {
      if (topics.empty() || topics.contains(topic)) newest = std::max(newest, sequence);
    }
    return newest;
  }
  for (auto entry = newest_.lower_bound({run, {}}); entry != newest_.end() && entry->first.first == run; ++entry) {
    if (topics.empty() || topics.contains(entry->first.second)) newest = std::max(newest, entry->second);
  }
  return newest;
}

std::size_t EventRings::cost(const Event& event) {
  constexpr std::size_t of_containers = 128;
  return sizeof(Event) + event.run.size() + event.head.size() + event.data.size() + of_containers;
}

void EventRings::append(Event event) {
  event.sequence = ++sequence_;
  event.at = SteadyClock::now();
  const auto kept = std::make_shared<const Event>(std::move(event));
  const Place place = rings_.try_emplace(kept->run).first;
  Ring& ring = place->second;
  by_bytes_.erase({ring.bytes, kept->run});
  ring.bytes += kept->data.size();
  by_bytes_.emplace(ring.bytes, kept->run);
  ring.events.push_back(kept);
  all_.emplace_hint(all_.end(), kept->sequence, kept);
  bytes_ += cost(*kept);
  bool left = true;
  while (left && (ring.events.size() > limits_.events_a_run || ring.bytes > limits_.bytes_a_run)) {
    left = ring.events.size() > 1;
    drop_oldest(place);
  }
  while (bytes_ > limits_.bytes && !by_bytes_.empty()) drop_oldest(rings_.find(by_bytes_.rbegin()->second));
  forget(kept->at);
}

void EventRings::forget(SteadyClock::time_point now) {
  while (!all_.empty() && all_.begin()->second->at + limits_.age < now) {
    drop_oldest(rings_.find(all_.begin()->second->run));  // the oldest of all is the oldest of its run
  }
}

void EventRings::drop_oldest(Place place) {
  Ring& ring = place->second;
  const Pointer event = std::move(ring.events.front());
  ring.events.pop_front();
  by_bytes_.erase({ring.bytes, place->first});
  ring.bytes -= event->data.size();
  bytes_ -= cost(*event);
  all_.erase(event->sequence);
  missed_.record(event->run, event->topic, event->sequence);
  if (ring.events.empty()) {
    rings_.erase(place);
  } else {
    by_bytes_.emplace(ring.bytes, place->first);
  }
}

void EventRings::visit(const std::string& run, std::uint64_t after,
                       const std::function<bool(const Pointer&)>& visit) const {
  if (run.empty()) {
    for (auto entry = all_.upper_bound(after); entry != all_.end(); ++entry) {
      if (!visit(entry->second)) return;
    }
    return;
  }
  const auto ring = rings_.find(run);
  if (ring == rings_.end()) return;
  const auto& events = ring->second.events;
  auto event = std::upper_bound(events.begin(), events.end(), after, [](std::uint64_t sequence, const Pointer& other) {
    return sequence < other->sequence;
  });
  for (; event != events.end() && visit(*event); ++event) {
  }
}

}  // namespace babelring::events
