#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/clock.h"

namespace babelring::events {

struct Event {
  std::uint64_t sequence = 0;
  SteadyClock::time_point at;
  std::string run;
  std::string topic;
  std::string head;  // lines before the data
  std::string data;  // a line of JSON and the empty line that ends the event
};

/// The newest missing event by run and topic: an event that was not made or is no longer kept. Its size is bounded:
/// runs that have missed nothing for long share one number.
class MissedEvents {
 public:
  void record(const std::string& run, const std::string& topic, std::uint64_t sequence);
  /// The newest missing event; 0: none is known. `run` empty: all runs. `topics` empty: all topics.
  std::uint64_t newest(const std::string& run, const std::set<std::string>& topics) const;
  /// Runs without an entry may have missed events up to this one.
  std::uint64_t floor() const { return floor_; }

  static constexpr std::size_t max_entries = 10'000;

 private:
  using Key = std::pair<std::string, std::string>;  // run, topic
  std::map<Key, std::uint64_t> newest_;
  std::map<std::uint64_t, Key> by_age_;
  std::map<std::string, std::uint64_t> by_topic_;
  std::uint64_t floor_ = 0;
};

/// The newest events of each run, for readers that lag or reconnect. Not thread-safe.
class EventRings {
 public:
  struct Limits {
    std::size_t events_a_run = 10'000, bytes_a_run = std::size_t{4} << 20;  // of their data
    std::size_t bytes =
        std::size_t{16} << 20;  // of all runs with overhead; above it the largest run loses its oldest events
    std::chrono::milliseconds age{300'000};
  };
  using Pointer = std::shared_ptr<const Event>;

  explicit EventRings(Limits limits) : limits_(limits) {}

  /// The sequence of the next event.
  std::uint64_t next() const { return sequence_ + 1; }
  /// Appends an event. Sets its sequence to next(), and its time.
  void append(Event event);
  /// Records that an event was not made because it has no listeners.
  void miss(const std::string& run, const std::string& topic) { missed_.record(run, topic, ++sequence_); }
  /// Drops events older than Limits::age.
  void forget(SteadyClock::time_point now);
  /// Visits the events with a sequence above `after` in order, until `visit` returns false. `run` empty: all runs.
  void visit(const std::string& run, std::uint64_t after, const std::function<bool(const Pointer&)>& visit) const;

  std::uint64_t sequence() const { return sequence_; }
  const MissedEvents& missed() const { return missed_; }
  bool empty() const { return all_.empty(); }
  /// Approximate memory of the events.
  std::size_t bytes() const { return bytes_; }

 private:
  struct Ring {
    std::deque<Pointer> events;
    std::size_t bytes = 0;  // of their data
  };
  using Place = std::map<std::string, Ring>::iterator;
  static std::size_t cost(const Event& event);
  void drop_oldest(Place ring);  // removes the ring if it becomes empty

  const Limits limits_;
  std::uint64_t sequence_ = 0;
  std::map<std::uint64_t, Pointer> all_;
  std::map<std::string, Ring> rings_;
  std::set<std::pair<std::size_t, std::string>> by_bytes_;  // of rings_
  std::size_t bytes_ = 0;
  MissedEvents missed_;
};

}  // namespace babelring::events
