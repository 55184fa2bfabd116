#include "server/events/event_rings.h"

#include <algorithm>

namespace babelring::events {

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
