#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "nmt/base/clock.h"
#include "nmt/base/records.h"
#include "server/http/message.h"

namespace babelring::api {

/// Distributes events to the event streams. Keeps the newest events of each run in a ring, so that a reader needs no
/// queue of its own: it is a position in the rings, and a slow one costs nothing. Thread-safe.
class EventHub {
 public:
  struct Limits {
    std::size_t events_a_run = 10'000, bytes_a_run = std::size_t{32} << 20;
    std::chrono::milliseconds age{300'000};
    std::chrono::milliseconds merge{250};  // metrics of a rank are gathered for this long
    std::size_t lag_bytes = 256 << 10;     // a reader this far behind loses metrics
    std::size_t subscribers = 10'000;
    std::size_t subscribers_a_token = 8;
  };

  EventHub() : EventHub(Limits{}) {}
  explicit EventHub(Limits limits);
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  /// One event; `data` is JSON text without line breaks.
  void publish(const std::string& run, const std::string& topic, std::string data);
  /// A step, sent together with others of the same rank.
  void publish_step(const RecordHeader& header, const StepRecord& step,
                    const std::vector<std::pair<std::string, double>>& metrics);

  /// Empty pointer when there are too many subscribers, or too many of this token. `run` empty: all runs. `topics`
  /// empty: all. `after` is the id of the last event seen, or empty. `token` empty: nobody's, not counted.
  std::shared_ptr<http::EventSource> subscribe(std::string run, std::set<std::string> topics, const std::string& after,
                                               std::string token = {});

  std::size_t subscribers() const;
  /// Frames of metrics that slow readers lost since the start.
  std::uint64_t dropped() const;

 private:
  class Subscription;
  struct Event {
    std::uint64_t sequence;
    SteadyClock::time_point at;
    std::string topic, data;
  };
  struct Ring {
    std::deque<Event> events;
    std::size_t bytes = 0;      // of their data
    std::uint64_t dropped = 0;  // sequence of the newest event that fell out
  };
  struct Pending;
  using PendingKey = std::tuple<std::string, std::int64_t, std::int64_t>;  // run, attempt, rank

  void append(const std::string& run, const std::string& topic, std::string data);  // with mutex_ held
  /// Drops what a ring has too much of, and what is too old in any. With mutex_ held.
  void forget(SteadyClock::time_point now);
  /// Sequence of the newest event of a run, or of any for an empty `run`, that is kept no more. With mutex_ held.
  std::uint64_t newest_dropped(const std::string& run) const;
  void wake_all();
  bool crowded(const std::string& token) const;  // has it as many streams as it may? With mutex_ held
  void merge_loop();
  std::string take(Subscription& subscription);

  const Limits limits_;
  const std::string epoch_;  // tells this process's sequences from an earlier one's
  mutable std::mutex mutex_;
  std::condition_variable pending_ready_;
  std::uint64_t sequence_ = 0, dropped_ = 0;
  std::map<std::string, Ring> rings_;
  std::map<std::string, std::uint64_t> forgotten_;  // runs whose rings ran empty: `dropped` of them
  std::map<PendingKey, std::unique_ptr<Pending>> pending_;
  std::set<Subscription*> subscriptions_;
  bool stopping_ = false;
  std::thread merger_;
};

}  // namespace babelring::api
