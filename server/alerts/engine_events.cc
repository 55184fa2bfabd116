// Alerts about events and about silence.

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "server/alerts/engine.h"

namespace babelring::alerts {
namespace {

constexpr std::string_view subject_begin = "attempt ";

std::string subject_of(std::int64_t attempt) {
  return fmt::format("{}{}", subject_begin, attempt);
}

std::int64_t attempt_of(std::string_view subject) {
  std::int64_t attempt = 0;
  if (subject.starts_with(subject_begin)) subject.remove_prefix(subject_begin.size());
  std::from_chars(subject.data(), subject.data() + subject.size(), attempt);
  return attempt;
}

/// Whether the event of that attempt is over.
bool is_over(Kind kind, std::int64_t attempt, const RunAfterEvent& run) {
  if (kind == Kind::restarted) return run.ended || (run.attempt > attempt && run.trains);
  return kind == Kind::finished || !run.failed || run.attempt > attempt;
}

}  // namespace

std::string owner_of(const std::string& run, const std::string& begun_by) {
  return begun_by.empty() ? "run " + run : "token " + begun_by;
}

std::set<std::string> Engine::runs_with_events() const {
  std::set<std::string> runs;
  for (const auto& [key, state] : states_) {
    const auto& [name, run, subject] = key;
    const auto rule = std::find_if(rules_.begin(), rules_.end(), [&](const Rule& each) { return each.name == name; });
    if (!run.empty() && rule != rules_.end() && is_event(rule->kind)) runs.insert(run);
  }
  return runs;
}

void Engine::find_owners(const RunEvents& events) {
  owners_.clear();
  for (const auto& [id, run] : events.runs) owners_[id] = owner_of(id, run.begun_by);
  for (const auto& [id, run] : runs_) owners_[id] = run.owner;
}

void Engine::raise_events(const Rule& rule, const RunEvents& events, Time now, std::vector<Change>& changes) {
  for (const RunEvent& event : events.happened) {
    if (event.kind != rule.kind || !applies(rule, event.run) || event.value < rule.threshold) continue;
    const std::string subject = subject_of(event.attempt);
    settle(rule, event.run, subject, {true, false, event.message, event.value}, now, changes);
    const auto state = states_.find({rule.name, event.run, subject});
    if (state->second.open) continue;
    states_.erase(state);
    ++held_events_[{rule.name, owners_[event.run]}];
  }
}

void Engine::judge_events(const Rule& rule, const RunEvents& events, Time now, std::vector<Change>& changes) {
  raise_events(rule, events, now, changes);
  std::vector<Key> keys;
  for (const auto& [key, state] : states_) {
    if (std::get<0>(key) == rule.name) keys.push_back(key);
  }
  for (const auto& [name, run, subject] : keys) {
    const auto after = events.runs.find(run);
    if (after == events.runs.end()) continue;
    settle(rule, run, subject, {false, is_over(rule.kind, attempt_of(subject), after->second), ""}, now, changes);
  }
}

/// A run that sends only records, without heartbeats, is as quiet during an evaluation as between two updates.
Engine::Condition Engine::silence_of(const Rule& rule, const Run& run, Time now) {
  Time newest = run.updated;
  for (const auto& [number, rank] : run.ranks) newest = std::max(newest, rank.heard);
  const double silence = std::chrono::duration<double>(now - newest).count();
  const double limit = run.beats ? rule.threshold : std::max(rule.threshold, 3 * run.longest_wait.count());
  const auto last = static_cast<double>(run.update > 0 ? run.update : run.stored_update);
  return {silence >= limit, silence < limit && !run.ranks.empty(),
          fmt::format("no record or heartbeat for {} s ({})", grouped(silence),
                      last > 0 ? "the last update was " + grouped(last) : "no update has been reported yet"),
          silence};
}

/// One fault raises one alert: a silent run has no updates either, but that is no stall.
bool Engine::counts_as_silent(const std::string& id, const Run& run, Time now) const {
  return std::any_of(rules_.begin(), rules_.end(), [&](const Rule& rule) {
    if (rule.kind != Kind::silent || !applies(rule, id)) return false;
    Rule soon = rule;
    soon.threshold /= 2;
    return silence_of(soon, run, now).bad;
  });
}

}  // namespace babelring::alerts
