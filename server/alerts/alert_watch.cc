#include "server/alerts/alert_watch.h"

#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "server/api/responses.h"
#include "server/store/checkpoints.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_unwritten = 10'000;

std::vector<alerts::Rule> read_rules(store::Store& store) {
  std::vector<alerts::Rule> rules;
  auto reader = store.reader(store::Store::For::own);
  for (const auto& row : store::list_alert_rules(*reader)) rules.push_back(rule_of(row));
  return rules;
}

}  // namespace

alerts::Rule rule_of(const store::AlertRuleRow& row) {
  const auto kind = alerts::kind_of(row.kind);
  if (!kind) fail("alert rule '{}': kind '{}' is not known", row.name, row.kind);
  return {.name = row.name,
          .kind = *kind,
          .enabled = row.enabled,
          .threshold = row.threshold,
          .hold_s = row.hold_s,
          .clear_s = row.clear_s,
          .run = row.run};
}

store::AlertRuleRow row_of(const alerts::Rule& rule) {
  return {rule.name,   std::string(alerts::to_string(rule.kind)), rule.run, rule.enabled, rule.threshold, rule.hold_s,
          rule.clear_s};
}

json::object alert_item(const store::AlertRow& alert) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? json::value(nullptr) : json::value(text);
  };
  return {{"id", alert.id},
          {"rule", alert.rule},
          {"kind", alert.kind},
          {"run", text_or_null(alert.run)},
          {"subject", text_or_null(alert.subject)},
          {"message", alert.message},
          {"value", alert.value},
          {"threshold", alert.threshold},
          {"state", alert.cleared_ms ? "cleared" : "open"},
          {"raised_at", format_rfc3339(alert.raised_ms)},
          {"cleared_at", time_or_null(alert.cleared_ms)},
          {"acknowledged_at", time_or_null(alert.acknowledged_ms)},
          {"acknowledged_by", text_or_null(alert.acknowledged_by)}};
}

AlertWatch::AlertWatch(store::Store& store, EventHub& events, std::vector<std::filesystem::path> folders,
                       std::chrono::milliseconds interval)
    : store_(store), events_(events), folders_(std::move(folders)) {
  std::vector<store::AlertRuleRow> defaults;
  for (const alerts::Rule& rule : alerts::default_rules()) defaults.push_back(row_of(rule));
  store_.write([&](store::Database& database) { store::found_alert_rules(database, defaults); });
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
  std::vector<alerts::Rule> rules;
  if (reload) rules = read_rules(store_);
  std::vector<alerts::RunningRun> running;
  {
    auto reader = store_.reader(store::Store::For::own);
    for (auto& [run, attempt, update, begun_by] : store::list_running(*reader))
      running.push_back({std::move(run), attempt, update, std::move(begun_by)});
  }
  const auto disks = free_space();
  {
    const std::lock_guard lock(mutex_);
    if (reload) engine_.set_rules(std::move(rules));
    auto found = engine_.judge(running, disks, SteadyClock::now());
    unwritten_.insert(unwritten_.end(), std::make_move_iterator(found.begin()), std::make_move_iterator(found.end()));
  }
  if (unwritten_.size() > max_unwritten) {
    unwritten_.erase(unwritten_.begin(), unwritten_.end() - static_cast<std::ptrdiff_t>(max_unwritten));
  }
  if (unwritten_.empty()) return;
  write(unwritten_);
  unwritten_.clear();
}

std::vector<alerts::FreeSpace> AlertWatch::free_space() const {
  std::vector<alerts::FreeSpace> disks;
  std::set<dev_t> looked_at;
  const auto look = [&](const std::filesystem::path& folder, bool again) {
    struct stat status {};
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

void AlertWatch::write(const std::vector<alerts::Change>& changes) {
  const std::int64_t now_ms = wall_time_ms();
  const auto written = store_.write([&](store::Database& database) {
    std::vector<store::AlertRow> rows;
    for (const alerts::Change& change : changes) {
      std::optional<store::AlertRow> row;
      if (change.raised) {
        store::AlertRow alert;
        alert.rule = change.rule;
        alert.kind = alerts::to_string(change.kind);
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
    return rows;
  });
  for (const store::AlertRow& alert : written) {
    if (!alert.cleared_ms) spdlog::warn("alert {} {}: {}", alert.rule, alert.run, alert.message);
    events_.publish(alert.run, "alert", to_text(alert_item(alert)));
  }
}

}  // namespace babelring::api
