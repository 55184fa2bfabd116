#include "server/verdict/run_health.h"

#include <algorithm>
#include <array>
#include <utility>

#include "insight/steps.h"
#include "insight/verdict/health.h"
#include "insight/verdict/verdict.h"
#include "server/store/logs.h"
#include "server/store/steps.h"
#include "server/verdict/verdict_input.h"

namespace babelring::verdict {
namespace {

constexpr double pauses_for = 20;  // times the computing time, which limits it to a twentieth of a processor

bool trains(const store::RunRow& run) {
  return run.state == store::RunState::running || run.state == store::RunState::stopping;
}

Course course_of(store::Reader& reader, const store::RunRow& run) {
  constexpr std::array<std::string_view, 2> keys = {"loss", "skipped"};
  Course course;
  const std::int64_t last = run.last.step, first = last - learning_window + 1;
  for (const auto& row : store::read_steps(reader, run.number, 0, run.attempt, first, last, keys)) {
    course.updates.push_back({row.step, row.values[0], row.values[1] > 0});
  }
  for (const auto& row : store::recent_validations(reader, run.number, config_scalar(run.config, "data.valid_set"),
                                                   static_cast<std::size_t>(learning_evaluations))) {
    course.evaluations.push_back({row.step, row.loss, row.sacrebleu});
  }
  return course;
}

/// Findings about learning.
HealthPart learning_part(store::Reader& reader, const store::RunRow& run) {
  if (!run.emulated) return judge_learning(course_of(reader, run));
  return {.topic = Topic::learning, .level = Level::good, .text = "Emulated: it waits instead of computing"};
}

/// For an ended run, only a useless model counts as a problem: early stopping follows a plateau.
HealthPart of_ended(HealthPart learning) {
  if (learning.level != Level::bad) learning.level = Level::good;
  if (learning.level != Level::bad) learning.action.clear();
  return learning;
}

std::vector<RunAlert> alerts_of(const store::RunRow& run, const std::vector<store::AlertRow>& alerts) {
  std::vector<RunAlert> of_run;
  for (const store::AlertRow& alert : alerts) {
    if (alert.run == run.id) of_run.push_back({alert.kind, alert.message, alert.acknowledged_ms.has_value()});
  }
  return of_run;
}

HealthPart state_part(const store::RunRow& run, const std::string& last_error, std::int64_t now_ms) {
  return judge_state({.state = std::string(name_of(run.state)),
                      .detail = run.detail,
                      .last_error = last_error,
                      .update = run.last.step,
                      .silent_since = is_stale(run, now_ms) ? format_rfc3339(run.updated_ms) : "",
                      .resumable = !run.is_external(),
                      .restarts = {.count = run.restarts.value_or(run.faults),
                                   .max = run.max_restarts.value_or(0),
                                   .last_time = run.restarted_ms > 0 ? format_rfc3339(run.restarted_ms) : "",
                                   .last_cause = run.restart_cause,
                                   .by_hand = !run.restarts.has_value()}});
}

}  // namespace

bool is_stale(const store::RunRow& run, std::int64_t now_ms) {
  return run.state == store::RunState::running && now_ms - run.updated_ms > stale_after_ms;
}

std::vector<HostLoad> host_loads(const store::RunRow& run, const launch::Heartbeats* heartbeats) {
  constexpr double oldest_s = 60;
  std::map<std::string, HostLoad> hosts;
  if (heartbeats == nullptr) return {};
  const double threads = number_in(config_scalar(run.config, "training.threads"));
  for (const launch::ReceivedHeartbeat& heard : heartbeats->of(run.id, run.attempt)) {
    const launch::Beat& beat = heard.beat;
    if (beat.processors <= 0 || heartbeats->age_s(heard) > oldest_s) continue;
    HostLoad& host = hosts[beat.host];
    host.host = beat.host;
    host.load = std::max(host.load, beat.load);
    host.processors = beat.processors;
    host.own_threads += threads;
  }
  std::vector<HostLoad> loads;
  for (auto& [name, host] : hosts) {
    // By default, the ranks on a host share its processors.
    if (threads == 0) host.own_threads = static_cast<double>(host.processors);
    loads.push_back(std::move(host));
  }
  return loads;
}

std::optional<HealthCache::Entry> HealthCache::known(const store::RunRow& run, const Budget& budget,
                                                     bool& fresh) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(run.id);
  fresh = false;
  if (found == entries_.end()) return std::nullopt;
  const Entry& entry = found->second;
  if (entry.state != run.state || entry.attempt != run.attempt) return std::nullopt;
  const Milliseconds age = SteadyClock::now() - entry.found_at;
  const bool same = entry.updated_ms == run.updated_ms && !trains(run);
  fresh = same || age < std::max(budget.max_age, pauses_for * entry.took);
  return entry;
}

HealthCache::Entry HealthCache::find(store::Reader& reader, const store::RunRow& run,
                                     const launch::Heartbeats* heartbeats) {
  Entry entry{.state = run.state,
              .attempt = run.attempt,
              .updated_ms = run.updated_ms,
              .found_at = {},
              .last_error = {},
              .parts = {}};
  const Stopwatch watch;
  if (run.last.step > 0) {
    const HealthPart learning = learning_part(reader, run);
    entry.parts.push_back(trains(run) ? learning : of_ended(learning));
  }
  if (run.state == store::RunState::failed || run.state == store::RunState::lost)
    entry.last_error = store::last_error(reader, run.number);
  if (trains(run)) {
    Input input = read_input(reader, run);
    input.hosts = host_loads(run, heartbeats);
    const HealthPart speed = health_part(judge(input));
    entry.parts.push_back(speed);
    if (speed.topic == Topic::speed && !input.hosts.empty()) {
      entry.parts.push_back(judge_hosts(input.hosts));
    }
  }
  entry.found_at = SteadyClock::now();
  entry.took = Milliseconds(watch.elapsed_ms());
  return entry;
}

Health HealthCache::health(store::Reader& reader, const store::RunRow& run, const std::vector<store::AlertRow>& alerts,
                           const launch::Heartbeats* heartbeats, std::int64_t now_ms, Budget& budget) {
  bool fresh = false;
  std::optional<Entry> entry = known(run, budget, fresh);
  if (!fresh && budget.time.count() > 0) {
    entry = find(reader, run, heartbeats);
    budget.time -= entry->took;
    const std::lock_guard lock(mutex_);
    if (entries_.size() >= max_entries && !entries_.contains(run.id)) entries_.clear();
    entries_[run.id] = *entry;
  }
  std::vector<HealthPart> parts = {state_part(run, entry ? entry->last_error : "", now_ms)};
  if (entry) parts.insert(parts.end(), entry->parts.begin(), entry->parts.end());
  const std::vector<RunAlert> of_run = alerts_of(run, alerts);
  if (trains(run) || !of_run.empty()) parts.push_back(judge_alerts(of_run));
  return health_of(std::move(parts));
}

}  // namespace babelring::verdict
