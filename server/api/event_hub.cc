#include "server/api/event_hub.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "nmt/base/json.h"

namespace babelring::api {

/// Steps of one rank that wait to be sent together.
struct EventHub::Pending {
  json::array steps, times;
  std::map<std::string, json::array> series;

  std::string text(const PendingKey& key) {
    json::object columns;
    for (auto& [name, values] : series) {
      values.resize(steps.size());  // null where a later step lacks the key
      columns[name] = std::move(values);
    }
    const auto& [run, attempt, rank] = key;
    return to_text(json::object{{"run", run},
                                {"attempt", attempt},
                                {"rank", rank},
                                {"step", std::move(steps)},
                                {"time_ms", std::move(times)},
                                {"series", std::move(columns)}});
  }
};

class EventHub::Subscription : public http::EventSource {
 public:
  Subscription(EventHub& hub, std::string run, std::set<std::string> topics, std::string token)
      : hub_(hub), run_(std::move(run)), topics_(std::move(topics)), token_(std::move(token)) {}
  ~Subscription() override {
    const std::lock_guard lock(hub_.mutex_);
    hub_.subscriptions_.erase(this);
  }
  std::string take() override { return hub_.take(*this); }
  void on_ready(std::function<void()> wake) override {
    const std::lock_guard lock(hub_.mutex_);
    wake_ = std::move(wake);
  }
  bool wants(const std::string& topic) const { return topics_.empty() || topics_.contains(topic); }

  EventHub& hub_;
  const std::string run_;
  const std::set<std::string> topics_;
  const std::string token_;
  std::function<void()> wake_;  // with hub_.mutex_ held
  std::uint64_t seen_ = 0;
  bool greeted_ = false, reset_ = false;
};

EventHub::EventHub(Limits limits) : limits_(limits), epoch_(std::to_string(wall_time_ms())) {
  merger_ = std::thread([this] { merge_loop(); });
}

EventHub::~EventHub() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pending_ready_.notify_one();
  merger_.join();
}

void EventHub::publish(const std::string& run, const std::string& topic, std::string data) {
  const std::lock_guard lock(mutex_);
  append(run, topic, std::move(data));
  wake_all();
}

void EventHub::publish_step(const RecordHeader& header, const StepRecord& step,
                            const std::vector<std::pair<std::string, double>>& metrics) {
  {
    const std::lock_guard lock(mutex_);
    auto& pending = pending_[{header.run, header.attempt, header.rank}];
    if (!pending) pending = std::make_unique<Pending>();
    const std::size_t before = pending->steps.size();
    pending->steps.push_back(step.update);
    pending->times.push_back(header.time_ms);
    for (const auto& [key, value] : metrics) {
      json::array& values = pending->series[key];
      values.resize(before);
      values.push_back(value);
    }
  }
  pending_ready_.notify_one();
}

void EventHub::merge_loop() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    pending_ready_.wait(lock, [&] { return stopping_ || !pending_.empty(); });
    pending_ready_.wait_for(lock, limits_.merge, [&] { return stopping_; });
    const auto ready = std::exchange(pending_, {});
    for (const auto& [key, pending] : ready) append(std::get<0>(key), "metrics", pending->text(key));
    wake_all();
  }
}

void EventHub::append(const std::string& run, const std::string& topic, std::string data) {
  const auto now = SteadyClock::now();
  Ring& ring = rings_[run];
  ring.bytes += data.size();
  ring.events.push_back({++sequence_, now, topic, std::move(data)});
  forget(now);
}

void EventHub::forget(SteadyClock::time_point now) {
  for (auto entry = rings_.begin(); entry != rings_.end();) {
    Ring& ring = entry->second;
    while (!ring.events.empty() && (ring.events.size() > limits_.events_a_run || ring.bytes > limits_.bytes_a_run ||
                                    ring.events.front().at + limits_.age < now)) {
      ring.bytes -= ring.events.front().data.size();
      ring.dropped = ring.events.front().sequence;
      ring.events.pop_front();
    }
    if (!ring.events.empty()) {
      ++entry;
      continue;
    }
    forgotten_[entry->first] = ring.dropped;
    entry = rings_.erase(entry);
  }
}

void EventHub::wake_all() {
  for (Subscription* subscription : subscriptions_) {
    if (subscription->wake_) subscription->wake_();
  }
}

bool EventHub::crowded(const std::string& token) const {
  const auto same = [&](const Subscription* other) { return other->token_ == token; };
  return !token.empty() && static_cast<std::size_t>(std::count_if(subscriptions_.begin(), subscriptions_.end(),
                                                                  same)) >= limits_.subscribers_a_token;
}

std::shared_ptr<http::EventSource> EventHub::subscribe(std::string run, std::set<std::string> topics,
                                                       const std::string& after, std::string token) {
  auto subscription = std::make_shared<Subscription>(*this, std::move(run), std::move(topics), std::move(token));
  const std::lock_guard lock(mutex_);
  if (subscriptions_.size() >= limits_.subscribers || crowded(subscription->token_)) return nullptr;
  subscription->seen_ = sequence_;
  if (!after.empty()) {
    const auto dash = after.find('-');
    std::uint64_t sequence = 0;
    const bool ours = dash != std::string::npos && after.substr(0, dash) == epoch_;
    if (ours) std::from_chars(after.data() + dash + 1, after.data() + after.size(), sequence);
    if (ours && sequence <= sequence_) subscription->seen_ = sequence;
    if (!ours || sequence > sequence_ || newest_dropped(subscription->run_) > sequence) {
      subscription->reset_ = true;
      subscription->seen_ = sequence_;
    }
  }
  subscriptions_.insert(subscription.get());
  return subscription;
}

std::uint64_t EventHub::newest_dropped(const std::string& run) const {
  std::uint64_t newest = 0;
  for (const auto& [id, ring] : rings_) {
    if (run.empty() || id == run) newest = std::max(newest, ring.dropped);
  }
  for (const auto& [id, dropped] : forgotten_) {
    if (run.empty() || id == run) newest = std::max(newest, dropped);
  }
  return newest;
}

std::string EventHub::take(Subscription& subscription) {
  const std::lock_guard lock(mutex_);
  std::string frames;
  const auto frame = [&](std::uint64_t sequence, std::string_view topic, std::string_view data) {
    fmt::format_to(std::back_inserter(frames), "id: {}-{}\nevent: {}\ndata: {}\n\n", epoch_, sequence, topic, data);
  };
  if (!std::exchange(subscription.greeted_, true)) frames = "retry: 2000\n\n";
  if (std::exchange(subscription.reset_, false)) frame(subscription.seen_, "reset", "{}");

  std::vector<const Event*> due;
  std::size_t bytes = 0;
  bool lost = false;
  for (const auto& [run, ring] : rings_) {
    if (!subscription.run_.empty() && run != subscription.run_) continue;
    lost = lost || ring.dropped > subscription.seen_;
    for (auto event = ring.events.rbegin(); event != ring.events.rend(); ++event) {
      if (event->sequence <= subscription.seen_) break;
      if (!subscription.wants(event->topic)) continue;
      due.push_back(&*event);
      bytes += event->data.size();
    }
  }
  std::sort(due.begin(), due.end(), [](const Event* a, const Event* b) { return a->sequence < b->sequence; });
  if (lost) frame(subscription.seen_, "reset", "{}");
  std::uint64_t dropped = 0;
  for (const Event* event : due) {
    if (bytes > limits_.lag_bytes && event->topic == "metrics") {
      bytes -= event->data.size();
      ++dropped;
      ++dropped_;
      continue;
    }
    if (dropped > 0) frame(event->sequence - 1, "gap", fmt::format("{{\"dropped\":{}}}", std::exchange(dropped, 0)));
    frame(event->sequence, event->topic, event->data);
  }
  if (dropped > 0) frame(sequence_, "gap", fmt::format("{{\"dropped\":{}}}", dropped));
  subscription.seen_ = sequence_;
  return frames;
}

std::size_t EventHub::subscribers() const {
  const std::lock_guard lock(mutex_);
  return subscriptions_.size();
}

std::uint64_t EventHub::dropped() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace babelring::api
