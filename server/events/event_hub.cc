#include "server/events/event_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace babelring::events {
namespace {

/// The lines of an event before its data.
std::string event_head(const std::string& epoch, std::uint64_t sequence, std::string_view name) {
  return fmt::format("id: {}-{}\nevent: {}\ndata: ", epoch, sequence, name);
}

}  // namespace

class EventHub::Subscription : public http::EventSource, public Listener {
 public:
  Subscription(EventHub& hub, Listener listener, std::string token)
      : Listener(std::move(listener)), hub_(hub), token_(std::move(token)) {}
  ~Subscription() override { hub_.leave(*this); }
  http::EventSource::Frames take() override { return hub_.take(*this); }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(hub_.mutex_);
    wake_ = std::make_shared<const std::function<void()>>(std::move(wake));
  }

  EventHub& hub_;
  const std::string token_;
  // With hub_.mutex_ held:
  Wake wake_;
  std::uint64_t seen_ = 0;        // the newest sequence that it has taken
  std::size_t bytes_behind_ = 0;  // of events that it wants and has not taken
  bool joined_ = false, greeted_ = false, reset_ = false, woken_ = false;
};

/// Writes the frames of one take().
class EventHub::FrameWriter {
 public:
  FrameWriter(const std::string& epoch, std::size_t max_bytes) : epoch_(epoch), max_bytes_(max_bytes) {}

  void greet() { frames_.text = "retry: 2000\n\n"; }
  void count_lost(std::uint64_t sequence) { lost_until_ = sequence, ++lost_; }
  void control(std::uint64_t sequence, std::string_view name, std::string_view data) {
    frames_.text.append(event_head(epoch_, sequence, name)).append(data).append("\n\n");
  }
  bool full() const { return frames_.last || frames_.text.size() >= max_bytes_; }
  void add(const EventRings::Pointer& event) {
    tell_lost();
    frames_.text += event->head;
    if (event->data.size() <= max_bytes_) {
      frames_.text += event->data;
    } else {
      frames_.last = std::shared_ptr<const std::string>(event, &event->data);
    }
  }
  http::EventSource::Frames finish(bool more) {
    tell_lost();
    frames_.more = more;
    return std::move(frames_);
  }

 private:
  void tell_lost() {
    if (lost_ > 0) control(lost_until_, "gap", fmt::format("{{\"dropped\":{}}}", lost_));
    lost_ = 0;
  }
  const std::string& epoch_;
  const std::size_t max_bytes_;
  http::EventSource::Frames frames_;
  std::uint64_t lost_ = 0, lost_until_ = 0;
};

EventHub::EventHub(Limits limits)
    : limits_(limits), epoch_(std::to_string(wall_time_ms())), rings_(limits), audience_(limits.linger) {
  merger_ = std::thread([this] { merge_loop(); });
}

EventHub::~EventHub() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  merger_.join();
}

bool EventHub::wants(const std::string& run, const std::string& topic) {
  const std::lock_guard lock(mutex_);
  const bool wanted = audience_.wants(run, topic);
  if (!wanted) rings_.miss(run, topic);
  return wanted;
}

void EventHub::publish(const std::string& run, const std::string& topic, std::string data) {
  std::vector<Message> messages;
  messages.push_back({topic, std::move(data)});
  publish(run, std::move(messages));
}

void EventHub::publish(const std::string& run, std::vector<Message> messages) {
  for (Message& message : messages) message.data += "\n\n";
  std::vector<Wake> wakes;
  {
    const std::lock_guard lock(mutex_);
    const bool idle = rings_.empty();
    std::map<std::string, std::size_t> bytes_by_topic;
    for (Message& message : messages) {
      if (!audience_.wants(run, message.topic)) {
        rings_.miss(run, message.topic);
        continue;
      }
      bytes_by_topic[message.topic] += message.data.size();
      std::string head = event_head(epoch_, rings_.next(), message.name.empty() ? message.topic : message.name);
      rings_.append({0, {}, run, std::move(message.topic), std::move(head), std::move(message.data)});
    }
    rings_.forget(SteadyClock::now());
    if (idle && !rings_.empty()) changed_.notify_one();  // from now on there is something that grows old
    wakes = alert(run, bytes_by_topic);
  }
  for (const Wake& wake : wakes) (*wake)();
}

std::vector<EventHub::Wake> EventHub::alert(const std::string& run,
                                            const std::map<std::string, std::size_t>& bytes_by_topic) {
  std::vector<Wake> wakes;
  for (const auto& [topic, bytes] : bytes_by_topic) {
    audience_.visit(run, topic, [&, added = bytes](Listener& listener) {
      auto& subscription = static_cast<Subscription&>(listener);
      subscription.bytes_behind_ += added;
      if (subscription.wake_ && !std::exchange(subscription.woken_, true)) wakes.push_back(subscription.wake_);
    });
  }
  return wakes;
}

void EventHub::publish_steps(const std::string& run, std::int64_t attempt, std::int64_t rank, MetricFrames steps) {
  {
    const std::lock_guard lock(mutex_);
    MetricFrames& pending = pending_[{run, attempt, rank}].steps;
    const std::size_t before = pending.bytes();
    pending.append(std::move(steps));
    pending_bytes_ += pending.bytes() - before;
    while (pending_bytes_ > limits_.pending_bytes) drop_pending();
  }
  changed_.notify_one();
}

void EventHub::drop_pending() {
  const auto largest = std::max_element(pending_.begin(), pending_.end(), [](const auto& a, const auto& b) {
    return a.second.steps.bytes() < b.second.steps.bytes();
  });
  const MetricFrames lost = std::exchange(largest->second.steps, {});
  largest->second.dropped += lost.size();
  dropped_ += lost.size();
  pending_bytes_ -= lost.bytes();
}

void EventHub::merge_loop() {
  constexpr std::chrono::seconds look_for_old(10);
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    rings_.forget(SteadyClock::now());
    if (pending_.empty()) {
      if (rings_.empty()) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, look_for_old);
      }
      continue;
    }
    changed_.wait_for(lock, limits_.merge, [&] { return stopping_; });
    auto ready = std::exchange(pending_, {});
    pending_bytes_ = 0;
    lock.unlock();  // the text of many steps takes long to make
    for (auto& [key, pending] : ready) publish(std::get<0>(key), messages_of(key, std::move(pending)));
    lock.lock();
  }
}

std::vector<EventHub::Message> EventHub::messages_of(const PendingKey& key, Pending pending) {
  const auto& [run, attempt, rank] = key;
  std::vector<Message> messages;
  if (pending.dropped > 0) {
    messages.push_back({"metrics", fmt::format("{{\"dropped\":{}}}", pending.dropped), "gap"});
  }
  while (!pending.steps.empty()) messages.push_back({"metrics", pending.steps.take_text(run, attempt, rank)});
  return messages;
}

std::shared_ptr<http::EventSource> EventHub::subscribe(std::string run, std::set<std::string> topics,
                                                       const std::string& after, std::string token) {
  auto subscription =
      std::make_shared<Subscription>(*this, Listener{std::move(run), std::move(topics)}, std::move(token));
  const std::lock_guard lock(mutex_);
  if (subscribers_ >= limits_.subscribers) return nullptr;
  if (const std::string& of = subscription->token_; !of.empty()) {
    const auto [count, fresh] = subscribers_by_token_.try_emplace(of, 0);
    if (count->second >= limits_.subscribers_a_token) return nullptr;
    ++count->second;
  }
  ++subscribers_;
  subscription->joined_ = true;
  subscription->seen_ = rings_.sequence();
  if (!after.empty()) resume(*subscription, after);
  audience_.add(subscription.get());
  return subscription;
}

void EventHub::resume(Subscription& subscription, const std::string& after) {
  const auto dash = after.find('-');
  std::uint64_t sequence = 0;
  const bool ours = dash != std::string::npos && after.substr(0, dash) == epoch_;
  if (ours) std::from_chars(after.data() + dash + 1, after.data() + after.size(), sequence);
  const MissedEvents& missed = rings_.missed();
  const bool kept = ours && sequence <= rings_.sequence() && sequence >= missed.floor() &&
                    sequence >= missed.newest(subscription.run, subscription.topics);
  if (!kept) {
    subscription.reset_ = true;
    return;
  }
  subscription.seen_ = sequence;
  rings_.visit(subscription.run, subscription.seen_, [&](const EventRings::Pointer& event) {
    if (subscription.wants(event->topic)) subscription.bytes_behind_ += event->data.size();
    return true;
  });
}

void EventHub::leave(Subscription& subscription) {
  const std::lock_guard lock(mutex_);
  if (!subscription.joined_) return;
  audience_.remove(&subscription);
  --subscribers_;
  const auto count = subscribers_by_token_.find(subscription.token_);
  if (count != subscribers_by_token_.end() && --count->second == 0) subscribers_by_token_.erase(count);
}

http::EventSource::Frames EventHub::take(Subscription& subscription) {
  const std::lock_guard lock(mutex_);
  subscription.woken_ = false;
  FrameWriter frames(epoch_, limits_.taken_bytes);
  if (!std::exchange(subscription.greeted_, true)) frames.greet();
  if (rings_.missed().newest(subscription.run, subscription.topics) > subscription.seen_) {
    // The client must fetch its data again, so the queued events are of no use to it.
    subscription.reset_ = true;
    subscription.seen_ = rings_.sequence();
    subscription.bytes_behind_ = 0;
  }
  if (std::exchange(subscription.reset_, false)) frames.control(subscription.seen_, "reset", "{}");
  bool more = false;
  rings_.visit(subscription.run, subscription.seen_, [&](const EventRings::Pointer& event) {
    if (subscription.wants(event->topic)) {
      if (frames.full()) return !(more = true);
      const bool late = subscription.bytes_behind_ > limits_.lag_bytes && event->topic == "metrics";
      subscription.bytes_behind_ -= std::min(subscription.bytes_behind_, event->data.size());
      if (late) {
        frames.count_lost(event->sequence);
        ++dropped_;
      } else {
        frames.add(event);
      }
    }
    subscription.seen_ = event->sequence;
    return true;
  });
  if (!more) subscription.seen_ = rings_.sequence();
  return frames.finish(more);
}

std::size_t EventHub::subscribers() const {
  const std::lock_guard lock(mutex_);
  return subscribers_;
}

std::uint64_t EventHub::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

std::size_t EventHub::bytes() const {
  const std::lock_guard lock(mutex_);
  return rings_.bytes() + pending_bytes_;
}

}  // namespace babelring::events
