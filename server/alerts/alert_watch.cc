#include "server/alerts/alert_watch.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/text.h"
#include "server/store/checkpoints.h"
#include "server/store/runs.h"

namespace babelring::alerts {
namespace {

constexpr std::size_t max_unwritten = 10'000;
constexpr std::int64_t max_events = 500;  // in one evaluation

std::vector<Rule> read_rules(store::Store& store) {
  std::vector<Rule> rules;
  auto reader = store.reader(store::Store::For::own);
  for (const auto& row : store::list_alert_rules(*reader)) rules.push_back(rule_of(row));
  return rules;
}

/// The event that a transition is for the rules; nothing if it is none.
std::optional<RunEvent> event_of(const store::UntoldTransition& transition) {
  using store::RunState;
  const std::string at = transition.update > 0
                             ? fmt::format(" at update {}", grouped(static_cast<double>(transition.update)))
                             : std::string();
  constexpr std::string_view said = "finished: ";
  const std::string cause = transition.cause.substr(transition.cause.starts_with(said) ? said.size() : 0);
  const std::string why = cause.empty() ? "" : ": " + cause;
  RunEvent event{.run = transition.run,
                 .begun_by = transition.begun_by,
                 .attempt = transition.attempt,
                 .message = {},
                 .value = static_cast<double>(transition.update)};
  if (transition.by_hand) {
    using store::Outcome;
    const bool fault = transition.outcome_before != Outcome::finished && transition.outcome_before != Outcome::stopped;
    if (!fault || transition.faults == 0) return std::nullopt;
    event.kind = Kind::restarted;
    event.attempt = transition.attempt - 1;
    event.value = static_cast<double>(transition.faults);
    event.message = fmt::format(
        "started again by hand{}: {}", at,
        transition.detail_before.empty() ? "the attempt before it did not report its end" : transition.detail_before);
    return event;
  }
  if (transition.before == transition.after) return std::nullopt;  // only its history went on
  switch (transition.after) {
    case RunState::restarting:
      event.kind = Kind::restarted;
      event.value = static_cast<double>(transition.restarts);
      event.message = fmt::format("restart {} of {}{}{}", transition.restarts, transition.max_restarts, at, why);
      return event;
    case RunState::failed:
    case RunState::lost:
      event.kind = Kind::failed;
      event.message = fmt::format("{}{}{}", transition.after == RunState::lost ? "lost" : "failed", at, why);
      return event;
    case RunState::succeeded:
      event.kind = Kind::finished;
      event.message = "finished" + at + why;
      return event;
    default:
      return std::nullopt;
  }
}

}  // namespace

Rule rule_of(const store::AlertRuleRow& row) {
  const auto kind = kind_of(row.kind);
  if (!kind) fail("alert rule '{}': kind '{}' is not known", row.name, row.kind);
  return {.name = row.name,
          .kind = *kind,
          .enabled = row.enabled,
          .threshold = row.threshold,
          .hold_s = row.hold_s,
          .clear_s = row.clear_s,
          .run = row.run};
}

store::AlertRuleRow row_of(const Rule& rule) {
  return {rule.name,   std::string(to_string(rule.kind)), rule.run, rule.enabled, rule.threshold, rule.hold_s,
          rule.clear_s};
}

AlertWatch::AlertWatch(store::Store& store, std::vector<std::filesystem::path> folders, OnChange on_change,
                       std::chrono::milliseconds interval, InTransaction in_transaction)
    : store_(store),
      folders_(std::move(folders)),
      on_change_(std::move(on_change)),
      in_transaction_(std::move(in_transaction)) {
  std::vector<store::AlertRuleRow> defaults;
  for (const Rule& rule : default_rules()) defaults.push_back(row_of(rule));
  store_.write([&](store::Database& database) { store::add_default_alert_rules(database, defaults); });
  engine_.set_rules(read_rules(store_));
  {
    auto reader = store_.reader(store::Store::For::own);
    for (const auto& alert : store::open_alerts(*reader)) engine_.adopt(alert.rule, alert.run, alert.subject);
  }
  thread_.emplace("alerts", interval, [this] { judge(); });
}

void AlertWatch::observe(const Record& record) {
  const std::lock_guard lock(mutex_);
  engine_.observe(record.header, record.body, SteadyClock::now());
}

void AlertWatch::heard(const std::string& run, std::int64_t attempt, std::int64_t rank, const std::string& host) {
  const std::lock_guard lock(mutex_);
  engine_.heard(run, attempt, rank, host, SteadyClock::now());
}

void AlertWatch::reload() {
  {
    const std::lock_guard lock(mutex_);
    reload_ = true;
  }
  thread_->wake();
}

void AlertWatch::judge() {
  bool reload = false;
  {
    const std::lock_guard lock(mutex_);
    reload = std::exchange(reload_, false);
  }
  std::vector<Rule> rules;
  if (reload) rules = read_rules(store_);
  std::vector<RunningRun> running;
  std::set<std::string> told_of;
  {
    const std::lock_guard lock(mutex_);
    told_of = engine_.runs_with_events();
  }
  RunEvents events;
  {
    auto reader = store_.reader(store::Store::For::own);
    for (auto& [run, attempt, update, begun_by, emulated] : store::list_running(*reader))
      running.push_back({std::move(run), attempt, update, std::move(begun_by), emulated});
    events = read_events(*reader, std::move(told_of));
  }
  const auto disks = free_space();
  {
    const std::lock_guard lock(mutex_);
    if (reload) engine_.set_rules(std::move(rules));
    auto found = engine_.judge(running, disks, SteadyClock::now(), events);
    unwritten_.insert(unwritten_.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  if (unwritten_.size() > max_unwritten) {
    unwritten_.erase(unwritten_.begin(), unwritten_.end() - static_cast<std::ptrdiff_t>(max_unwritten));
  }
  if (unwritten_.empty() && unmarked_.empty()) return;
  write(unwritten_);
  unwritten_.clear();
  unmarked_.clear();
}

RunEvents AlertWatch::read_events(store::Reader& reader, std::set<std::string> runs) {
  RunEvents events;
  const auto backlog = static_cast<std::int64_t>(unmarked_.size());
  for (const store::UntoldTransition& transition : store::untold_transitions(reader, backlog + max_events)) {
    if (!unmarked_.insert(transition.number).second) continue;
    auto event = event_of(transition);
    const auto run = event ? store::find_run_after(reader, event->run) : std::nullopt;
    if (!run || run->hidden) continue;
    runs.insert(event->run);
    events.happened.push_back(std::move(*event));
  }
  for (const std::string& id : runs) {
    const auto run = store::find_run_after(reader, id);
    if (!run) continue;
    const bool failed = run->state == store::RunState::failed || run->state == store::RunState::lost;
    events.runs[id] = {run->begun_by, run->attempt, run->trains, failed, failed || store::is_terminal(run->state),
                       run->hidden};
  }
  return events;
}

std::vector<FreeSpace> AlertWatch::free_space() const {
  std::vector<FreeSpace> disks;
  std::set<dev_t> looked_at;
  const auto look = [&](const std::filesystem::path& folder, bool again) {
    struct stat status{};
    std::error_code error;
    if (stat(folder.c_str(), &status) != 0 || (!looked_at.insert(status.st_dev).second && !again)) return;
    const auto space = std::filesystem::space(folder, error);
    if (!error) disks.push_back({folder.string(), static_cast<double>(space.available)});
  };
  for (const auto& folder : folders_) look(folder, true);
  std::vector<store::CheckpointRow> newest;
  {
    auto reader = store_.reader(store::Store::For::own);
    newest = store::newest_of_active_runs(*reader, wall_time_ms() - store::forgotten_ms);
  }
  for (const store::CheckpointRow& checkpoint : newest) {
    std::error_code error;
    const auto folder = std::filesystem::weakly_canonical(checkpoint.folder, error).parent_path();
    const auto above = [&](const std::filesystem::path& root) {
      return std::mismatch(root.begin(), root.end(), folder.begin(), folder.end()).first == root.end();
    };
    if (!error && std::any_of(folders_.begin(), folders_.end(), above)) look(folder, false);
  }
  return disks;
}

void AlertWatch::write(const std::vector<Change>& changes) {
  const std::int64_t now_ms = wall_time_ms();
  const auto written = store_.write([&](store::Database& database) {
    std::vector<store::AlertRow> rows;
    for (const Change& change : changes) {
      std::optional<store::AlertRow> row;
      if (change.raised) {
        store::AlertRow alert;
        alert.rule = change.rule;
        alert.kind = to_string(change.kind);
        alert.run = change.run;
        alert.subject = change.subject;
        alert.message = change.message;
        alert.value = change.value;
        alert.threshold = change.threshold;
        alert.raised_ms = now_ms;
        row = store::raise_alert(database, std::move(alert));
      } else {
        row = store::clear_alert(database, change.rule, change.run, change.subject, now_ms);
      }
      if (row) rows.push_back(std::move(*row));
    }
    for (const std::int64_t transition : unmarked_) store::mark_told(database, transition);
    for (const store::AlertRow& row : rows) {
      if (in_transaction_) in_transaction_(database, row);
    }
    return rows;
  });
  for (const store::AlertRow& alert : written) {
    const auto level = alert.kind == to_string(Kind::finished) ? spdlog::level::info : spdlog::level::warn;
    if (!alert.cleared_ms) spdlog::log(level, "alert {} {}: {}", alert.rule, alert.run, alert.message);
    on_change_(alert);
  }
}

}  // namespace babelring::alerts
