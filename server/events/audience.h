#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

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

}  // namespace babelring::events
