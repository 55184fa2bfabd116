#include "server/http/lanes.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/spawn.h"

namespace babelring::http {

void FairQueue::file(Lines::value_type& entry, double spent) {
  auto& [owner, line] = entry;
  if (line.filed) ready_.erase({line.spent, owner});
  line.spent = spent;
  line.filed = !line.work.empty() && line.running < limits_.max_running_per_owner;
  if (line.filed) ready_.insert({line.spent, owner});
}

void FairQueue::drop_abandoned(Lines::value_type& entry, Dropped& dropped) {
  auto& work = entry.second.work;
  const auto left = std::stable_partition(work.begin(), work.end(),
                                          [](const Work& one) { return !one.abandoned || !one.abandoned(); });
  for (auto gone = left; gone != work.end(); ++gone) dropped.emplace_back(std::move(*gone), Work::Drop::abandoned);
  waiting_ -= static_cast<std::size_t>(work.end() - left);
  work.erase(left, work.end());
  file(entry, entry.second.spent);
}

FairQueue::Dropped FairQueue::push(Work work) {
  Dropped dropped;
  auto& own = *lines_.try_emplace(work.owner).first;
  Line& line = own.second;
  if (work.drop) {
    if (line.work.size() >= limits_.max_waiting_per_owner) drop_abandoned(own, dropped);
    if (waiting_ >= limits_.max_waiting) {
      for (auto& entry : lines_) drop_abandoned(entry, dropped);
    }
    const bool refused = [&] {
      if (line.work.size() >= limits_.max_waiting_per_owner) return true;
      if (waiting_ < limits_.max_waiting) return false;
      auto& longest = *std::max_element(lines_.begin(), lines_.end(), [](const auto& a, const auto& b) {
        return a.second.work.size() < b.second.work.size();
      });
      const bool greedier = longest.second.work.size() > line.work.size() + 1;
      if (!greedier || !longest.second.work.back().drop) return true;
      dropped.emplace_back(std::move(longest.second.work.back()), Work::Drop::full);
      longest.second.work.pop_back();
      --waiting_;
      file(longest, longest.second.spent);
      return false;
    }();
    if (refused) {
      dropped.emplace_back(std::move(work), Work::Drop::full);
      return dropped;
    }
  }
  const bool idle = line.work.empty() && line.running == 0;
  line.work.push_back(std::move(work));
  ++waiting_;
  file(own, idle ? std::max(line.spent, clock_) : line.spent);
  return dropped;
}

std::optional<Work> FairQueue::pop() {
  if (ready_.empty()) return std::nullopt;
  auto& entry = *lines_.find(ready_.begin()->second);
  Line& line = entry.second;
  clock_ = std::max(clock_, line.spent);
  Work work = std::move(line.work.front());
  line.work.pop_front();
  --waiting_;
  ++running_;
  ++line.running;
  file(entry, line.spent + 1);
  return work;
}

void FairQueue::finish(const std::string& owner, double cost) {
  auto& entry = *lines_.find(owner);
  --running_;
  --entry.second.running;
  file(entry, entry.second.spent + std::max(cost - 1, 0.0));
  forget_idle();
}

void FairQueue::forget_idle() {
  if (waiting_ > 0 && lines_.size() <= 2 * limits_.max_waiting) return;
  std::erase_if(lines_, [](const auto& entry) { return entry.second.work.empty() && entry.second.running == 0; });
}

std::vector<Work> FairQueue::clear() {
  std::vector<Work> all;
  for (auto& entry : lines_) {
    for (Work& work : entry.second.work) all.push_back(std::move(work));
    entry.second.work.clear();
    file(entry, entry.second.spent);
  }
  waiting_ = 0;
  return all;
}

std::optional<SteadyClock::time_point> FairQueue::oldest(const std::string& subject) const {
  std::optional<SteadyClock::time_point> oldest;
  const auto consider = [&](const Work& work) { oldest = std::min(oldest.value_or(work.arrived), work.arrived); };
  if (waiting_ == 0) return oldest;
  for (const auto& [owner, line] : lines_) {
    if (subject.empty() && !line.work.empty()) consider(line.work.front());
    if (subject.empty()) continue;
    for (const Work& work : line.work) {
      if (work.subject == subject) consider(work);
    }
  }
  return oldest;
}

namespace {

constexpr std::size_t no_fewer_than_connections = 16'384;

}  // namespace

std::string_view name_of(Lane lane) {
  switch (lane) {
    case Lane::heartbeat:
      return "heartbeat";
    case Lane::ingest:
      return "ingest";
    case Lane::health:
      return "health";
    case Lane::ordinary:
      return "ordinary";
    case Lane::query:
      return "query";
    case Lane::process:
      return "process";
  }
  return "";
}

LaneTable default_lanes() {
  LaneTable table;
  const auto set = [&](Lane lane, const LaneLimits& limits) { table.at(static_cast<std::size_t>(lane)) = limits; };
  set(Lane::heartbeat, {.threads = 2,
                        .max_waiting = no_fewer_than_connections,
                        .max_waiting_per_owner = no_fewer_than_connections,
                        .max_running_per_owner = 1});
  set(Lane::ingest, {.threads = 2,
                     .max_waiting = no_fewer_than_connections,
                     .max_waiting_per_owner = no_fewer_than_connections,
                     .max_running_per_owner = 2});
  set(Lane::health, {.threads = 1, .max_waiting = 256, .max_waiting_per_owner = 64, .max_running_per_owner = 1});
  set(Lane::ordinary, {.threads = 4,
                       .max_waiting = no_fewer_than_connections,
                       .max_waiting_per_owner = no_fewer_than_connections,
                       .max_running_per_owner = 3});
  // Where processors are scarce, what may take long gives way to what must not.
  set(Lane::query,
      {.threads = 3, .max_waiting = 256, .max_waiting_per_owner = 64, .max_running_per_owner = 2, .nice = 5});
  set(Lane::process,
      {.threads = 2, .max_waiting = 64, .max_waiting_per_owner = 16, .max_running_per_owner = 1, .nice = 5});
  return table;
}

Lanes::Lanes(const LaneTable& table, Now now) : now_(std::move(now)) {
  for (const LaneLimits& limits : table) {
    LaneState& state = *states_.emplace_back(std::make_unique<LaneState>(limits));
    for (Running& running : state.running) {
      state.threads.emplace_back([this, &state, &running, nice = limits.nice] { serve(state, running, nice); });
    }
  }
}

Lanes::~Lanes() {
  stop();
}

void Lanes::submit(Lane lane, Work work) {
  LaneState& state = this->state(lane);
  FairQueue::Dropped dropped;
  {
    const std::lock_guard lock(state.mutex);
    if (state.ending) {
      dropped.emplace_back(std::move(work), Work::Drop::ending);
    } else {
      dropped = state.queue.push(std::move(work));
    }
    for (const auto& [gone, why] : dropped) ++(why == Work::Drop::abandoned ? state.abandoned : state.refused);
  }
  state.changed.notify_one();
  for (auto& [gone, why] : dropped) {
    if (gone.drop) gone.drop(why);
  }
}

void Lanes::serve(LaneState& state, Running& running, int nice) {
  if (nice > 0) lower_priority(0, nice);
  std::unique_lock lock(state.mutex);
  for (;;) {
    std::optional<Work> work;
    state.changed.wait(lock, [&] { return state.ending || (work = state.queue.pop()); });
    if (!work) return;
    const bool gone = work->drop && work->abandoned && work->abandoned();
    if (gone) ++state.abandoned;
    running = {true, work->subject, work->arrived};
    lock.unlock();
    const auto begun = now_();
    try {
      gone ? work->drop(Work::Drop::abandoned) : work->run();
    } catch (const std::exception& failure) {
      spdlog::error("a request's handler: {}", failure.what());
    }
    const double cost_ms = std::chrono::duration<double, std::milli>(now_() - begun).count();
    const std::string owner = std::move(work->owner);
    work.reset();  // its memory may take long to free
    lock.lock();
    running.busy = false;
    state.queue.finish(owner, cost_ms);
    state.changed.notify_one();  // the owner's next may run now
  }
}

void Lanes::stop() {
  for (const auto& state : states_) {
    std::vector<Work> left;
    {
      const std::lock_guard lock(state->mutex);
      state->ending = true;
      left = state->queue.clear();
    }
    state->changed.notify_all();
    for (Work& work : left) {
      if (work.drop) work.drop(Work::Drop::ending);
    }
  }
  for (const auto& state : states_) {
    for (std::thread& thread : state->threads) {
      if (thread.joinable()) thread.join();
    }
  }
}

Lanes::Stats Lanes::stats(Lane lane) const {
  const auto now = now_();
  const LaneState& state = this->state(lane);
  const std::lock_guard lock(state.mutex);
  const auto oldest = state.queue.oldest();
  return {.waiting = state.queue.waiting(),
          .running = state.queue.running(),
          .oldest_s = oldest ? std::chrono::duration<double>(now - *oldest).count() : 0,
          .refused = state.refused,
          .abandoned = state.abandoned};
}

SteadyClock::time_point Lanes::handled_until(Lane lane, const std::string& subject) const {
  const LaneState& state = this->state(lane);
  const std::lock_guard lock(state.mutex);
  auto until = now_();
  if (const auto oldest = state.queue.oldest(subject)) until = std::min(until, *oldest);
  for (const Running& running : state.running) {
    if (running.busy && (subject.empty() || running.subject == subject)) until = std::min(until, running.arrived);
  }
  return until;
}

}  // namespace babelring::http
