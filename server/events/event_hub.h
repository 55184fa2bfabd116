#pragma once

#include <condition_variable>
#include <cstdint>
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

#include "base/clock.h"
#include "server/events/audience.h"
#include "server/events/event_rings.h"
#include "server/events/metric_frames.h"
#include "server/http/message.h"

namespace babelring::events {

/// Distributes events to the event streams. Keeps the newest events of each run that somebody listens to in a ring, so
/// that a reader needs no queue: it is a position in the rings, and a slow one costs nothing. Bounded in bytes,
/// whatever is reported. Thread-safe.
class EventHub {
 public:
  struct Limits : EventRings::Limits {
    std::chrono::milliseconds merge{250};      // metrics of a rank are gathered for this long
    std::size_t pending_bytes = 8 << 20;       // of gathered metrics; beyond, the rank with the most loses its own
    std::size_t lag_bytes = 256 << 10;         // a reader this far behind loses metrics
    std::size_t taken_bytes = 16 << 10;        // take() returns this much, about
    std::chrono::milliseconds linger{60'000};  // events are made for this long after the last listener has left
    std::size_t subscribers = 10'000;
    std::size_t subscribers_a_token = 8;
  };
  struct Message {
    std::string topic, data;  // JSON text without line breaks
    std::string name = {};    // of the event, if it is not the topic
  };

  EventHub() : EventHub(Limits{}) {}
  explicit EventHub(Limits limits);
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  /// False: nobody listens to this topic of the run, so the caller need not make its event. A reader that resumes from
  /// before this call is told that it missed something.
  bool wants(const std::string& run, const std::string& topic);
  /// Those that somebody wants; readers are woken once for all of them.
  void publish(const std::string& run, std::vector<Message> messages);
  void publish(const std::string& run, const std::string& topic, std::string data);
  /// Steps of one rank, sent together with others of the same rank that come within `merge`.
  void publish_steps(const std::string& run, std::int64_t attempt, std::int64_t rank, MetricFrames steps);

  /// Empty pointer when there are too many subscribers, or too many of this token. `run` empty: all runs. `topics`
  /// empty: all. `after` is the id of the last event seen, or empty. `token` empty: nobody's, not counted.
  std::shared_ptr<http::EventSource> subscribe(std::string run, std::set<std::string> topics, const std::string& after,
                                               std::string token = {});

  std::size_t subscribers() const;
  /// Frames of metrics that readers lost since the start.
  std::uint64_t dropped() const;
  /// What events and gathered metrics take.
  std::size_t bytes() const;

 private:
  class Subscription;
  class FrameWriter;
  struct Pending {
    MetricFrames steps;
    std::uint64_t dropped = 0;  // frames
  };
  using PendingKey = std::tuple<std::string, std::int64_t, std::int64_t>;  // run, attempt, rank
  using Wake = std::shared_ptr<const std::function<void()>>;

  void merge_loop();
  static std::vector<Message> messages_of(const PendingKey& key, Pending pending);
  http::EventSource::Frames take(Subscription& subscription);
  void leave(Subscription& subscription);
  // With mutex_ held:
  void drop_pending();
  /// Notes that its readers are behind by `bytes` more, and returns the wakes of those that are not woken yet.
  std::vector<Wake> alert(const std::string& run, const std::map<std::string, std::size_t>& bytes_by_topic);
  void resume(Subscription& subscription, const std::string& after);

  const Limits limits_;
  const std::string epoch_;  // tells this process's sequences from an earlier one's
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t dropped_ = 0;
  EventRings rings_;
  Audience audience_;
  std::map<PendingKey, Pending> pending_;
  std::size_t pending_bytes_ = 0, subscribers_ = 0;
  std::map<std::string, std::size_t> subscribers_by_token_;
  bool stopping_ = false;
  std::thread merger_;
};

}  // namespace babelring::events
