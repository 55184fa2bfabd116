#include "server/api/what_if_runs.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace babelring::api {

bool WhatIfRuns::Entry::is_fresh(const store::RunRow& now) const {
  constexpr int pauses_for = 20;  // times the reading time, which limits it to a twentieth of a processor
  const auto age = SteadyClock::now() - read_at;
  if (attempt != now.attempt) return false;
  return age < pauses_for * took || (updated_ms == now.updated_ms && age < std::chrono::seconds(10));
}

std::shared_ptr<const insight::WhatIfRun> WhatIfRuns::get(const store::RunRow& run, const Read& read) {
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.run == run.id; });
    if (known != entries_.end() && known->is_fresh(run)) return known->content;
  }
  Entry entry{.run = run.id, .attempt = run.attempt, .updated_ms = run.updated_ms, .read_at = {}, .content = {}};
  const auto began = SteadyClock::now();
  entry.content = std::make_shared<const insight::WhatIfRun>(read());
  entry.read_at = SteadyClock::now();
  entry.took = entry.read_at - began;
  const std::lock_guard lock(mutex_);
  entries_.remove_if([&](const Entry& e) { return e.run == run.id; });
  entries_.push_front(entry);
  if (entries_.size() > max_entries) entries_.pop_back();
  return entry.content;
}

}  // namespace babelring::api
