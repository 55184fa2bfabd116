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
#include <vector>

#include "base/clock.h"

namespace babelring::events {

/// A subscriber of events.
struct Listener {
  std::string run;               // empty: all runs
  std::set<std::string> topics;  // empty: all
  bool wants(const std::string& topic) const { return topics.empty() || topics.contains(topic); }
};

/// Tracks the runs and topics for which events must be produced: those with a listener now or within the last `linger`,
/// so that a client that reconnects misses nothing. Not thread-safe.
class Audience {
 public:
  explicit Audience(std::chrono::milliseconds linger) : linger_(linger) {}

  /// The listener must outlive its registration and must not change meanwhile.
  void add(Listener* listener);
  void remove(Listener* listener);
  bool wants(const std::string& run, const std::string& topic) const;
  /// Calls `visit` for each listener of the run and topic.
  void visit(const std::string& run, const std::string& topic, const std::function<void(Listener&)>& visit) const;

 private:
  struct Interest {
    std::size_t listeners = 0;
    SteadyClock::time_point until{};  // end of the interest if there is no listener
  };
  struct OfRun {
    std::set<Listener*> listeners;
    std::map<std::string, Interest> topics;  // empty: all topics
    bool wants(const std::string& topic) const;
  };
  static constexpr std::size_t max_lingering = 10'000;

  static std::set<std::string> topics_of(const Listener& listener);
  void forget_runs();

  const std::chrono::milliseconds linger_;
  std::map<std::string, OfRun> runs_;
  std::deque<std::pair<SteadyClock::time_point, std::string>> lingering_;  // (end of the interest, run)
};

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
