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
#include "server/events/event_rings.h"
#include "server/http/message.h"

namespace babelring::events {

/// Distributes events to the event streams. The newest events of each run with listeners are kept in a ring. A reader
/// has no queue of events, only a position in the rings, so that slow readers cost no memory. The total size is
/// bounded. Thread-safe.
class EventHub {
 public:
  struct Limits : EventRings::Limits {
    std::chrono::milliseconds merge{250};  // metrics of a rank are gathered for this long
    std::size_t pending_bytes = 8 << 20;   // of gathered metrics; above it the rank with the most metrics loses them
    std::size_t lag_bytes = 256 << 10;     // a reader this far behind loses metrics
    std::size_t taken_bytes = 16 << 10;    // approximate size of the result of take()
    std::chrono::milliseconds linger{60'000};  // events are made for this time after the last listener has left
    std::size_t subscribers = 10'000;
    std::size_t subscribers_a_token = 8;
  };
  struct Message {
    std::string topic, data;  // JSON text without line breaks
    std::string name = {};    // name of the event; empty: the topic
  };

  EventHub() : EventHub(Limits{}) {}
  explicit EventHub(Limits limits);
  ~EventHub();
  EventHub(const EventHub&) = delete;
  EventHub& operator=(const EventHub&) = delete;

  /// True if the topic of the run has listeners. Otherwise the caller need not make the event, and a reader that later
  /// resumes from an earlier position is told that it missed events.
  bool wants(const std::string& run, const std::string& topic);
  /// Publishes the messages whose topics have listeners. Wakes each reader at most once.
  void publish(const std::string& run, std::vector<Message> messages);
  void publish(const std::string& run, const std::string& topic, std::string data);
  /// Publishes steps of one rank, together with later ones of the same rank within Limits::merge.
  void publish_steps(const std::string& run, std::int64_t attempt, std::int64_t rank, MetricFrames steps);

  /// Returns null if there are too many subscribers, in total or with this token. `run` empty: all runs. `topics`
  /// empty: all topics. `after`: id of the last event seen, or empty. `token` empty: not counted.
  std::shared_ptr<http::EventSource> subscribe(std::string run, std::set<std::string> topics, const std::string& after,
                                               std::string token = {});

  std::size_t subscribers() const;
  /// Frames of metrics that readers lost since the start.
  std::uint64_t dropped() const;
  /// Approximate memory of events and gathered metrics.
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
  // These require mutex_.
  void drop_pending();
  /// Adds to the lag of the run's readers. Returns the callbacks of the readers that are not yet woken.
  std::vector<Wake> alert(const std::string& run, const std::map<std::string, std::size_t>& bytes_by_topic);
  void resume(Subscription& subscription, const std::string& after);

  const Limits limits_;
  const std::string epoch_;  // distinguishes the sequences of this process from those of earlier ones
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
