#include "server/http/fair_queue.h"

#include <algorithm>

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

}  // namespace babelring::http
