#include "server/events/audience.h"

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

}  // namespace babelring::events
