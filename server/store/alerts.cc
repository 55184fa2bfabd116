#include "server/store/alerts.h"

#include "base/records.h"

namespace babelring::store {
namespace {

constexpr std::string_view alert_columns =
    "SELECT alert, id, rule, kind, run, subject, message, value, threshold, raised_ms, cleared_ms, acknowledged_ms, "
    "acknowledged_by FROM alerts ";

AlertRow alert_of(const Statement& row) {
  const auto time = [&](int column) {
    return row.is_null(column) ? std::nullopt : std::optional<std::int64_t>(row.integer(column));
  };
  AlertRow alert;
  alert.number = row.integer(0);
  alert.id = row.text(1);
  alert.rule = row.text(2);
  alert.kind = row.text(3);
  alert.run = row.text(4);
  alert.subject = row.text(5);
  alert.message = row.text(6);
  alert.value = row.real(7);
  alert.threshold = row.real(8);
  alert.raised_ms = row.integer(9);
  alert.cleared_ms = time(10);
  alert.acknowledged_ms = time(11);
  alert.acknowledged_by = row.text(12);
  return alert;
}

std::optional<AlertRow> first_alert(Statement& rows) {
  if (!rows.step()) return std::nullopt;
  return alert_of(rows);
}

void insert_rules(Database& database, const std::vector<AlertRuleRow>& rules) {
  std::int64_t place = 0;
  for (const AlertRuleRow& rule : rules) {
    database
        .prepare(
            "INSERT INTO alert_rules(place, name, kind, run, enabled, threshold, hold_s, clear_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(++place, rule.name, rule.kind, rule.run, rule.enabled, rule.threshold, rule.hold_s, rule.clear_s)
        .run();
  }
}

}  // namespace

std::vector<AlertRuleRow> list_alert_rules(Reader& reader) {
  Statement rows = reader.database.prepare(
      "SELECT name, kind, run, enabled, threshold, hold_s, clear_s FROM alert_rules WHERE place > 0 ORDER BY place");
  std::vector<AlertRuleRow> rules;
  while (rows.step()) {
    rules.push_back(
        {rows.text(0), rows.text(1), rows.text(2), rows.integer(3) != 0, rows.real(4), rows.real(5), rows.real(6)});
  }
  return rules;
}

void replace_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules) {
  database.prepare("DELETE FROM alert_rules WHERE place > 0").run();
  insert_rules(database, rules);
}

void found_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules) {
  {
    // The row with place 0 marks that rules have been stored before, even if all were deleted.
    Statement founded = database.prepare("SELECT 1 FROM alert_rules WHERE place = 0");
    if (founded.step()) return;
  }
  database.prepare("INSERT INTO alert_rules(place, name, kind) VALUES (0, '', '')").run();
  insert_rules(database, rules);
}

std::vector<AlertRow> list_alerts(Reader& reader, const std::string& run, const std::string& state, std::int64_t before,
                                  std::int64_t limit) {
  static const std::string chosen =
      "(?2 = '' OR (?2 = 'open') = (cleared_ms IS NULL)) AND (?3 = 0 OR alert < ?3) ORDER BY alert DESC LIMIT ?4";
  static const std::string of_all = std::string(alert_columns) + "WHERE ?1 = '' AND " + chosen;
  static const std::string of_run = std::string(alert_columns) + "WHERE run = ?1 AND " + chosen;  // by its index
  Statement rows = reader.database.prepare(run.empty() ? of_all : of_run);
  rows.bind(run, state, before, limit);
  std::vector<AlertRow> alerts;
  while (rows.step()) alerts.push_back(alert_of(rows));
  return alerts;
}

std::vector<AlertRow> open_alerts(Reader& reader) {
  static const std::string sql = std::string(alert_columns) + "WHERE cleared_ms IS NULL ORDER BY alert";
  Statement rows = reader.database.prepare(sql);
  std::vector<AlertRow> alerts;
  while (rows.step()) alerts.push_back(alert_of(rows));
  return alerts;
}

std::vector<AlertRow> lasting_alerts(Reader& reader, const std::string& run) {
  static const std::string columns(alert_columns);
  static const std::string differ = "kind = 'ranks_differ' AND cleared_ms IS NOT NULL ";
  static const std::string of_all =
      columns + "WHERE ?1 = '' AND cleared_ms IS NULL UNION ALL " + columns + "WHERE ?1 = '' AND " + differ;
  static const std::string of_run =
      columns + "WHERE run = ?1 AND cleared_ms IS NULL UNION ALL " + columns + "WHERE run = ?1 AND " + differ;
  Statement rows = reader.database.prepare(run.empty() ? of_all : of_run);
  rows.bind(run);
  std::vector<AlertRow> alerts;
  while (rows.step()) alerts.push_back(alert_of(rows));
  return alerts;
}

std::optional<AlertRow> raise_alert(Database& database, AlertRow alert) {
  alert.id = make_id('a');
  Statement insert = database.prepare(
      "INSERT INTO alerts(id, rule, kind, run, subject, message, value, threshold, raised_ms) "
      "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING RETURNING alert");
  insert.bind(alert.id, alert.rule, alert.kind, alert.run, alert.subject, alert.message, alert.value, alert.threshold,
              alert.raised_ms);
  if (!insert.step()) return std::nullopt;
  alert.number = insert.integer(0);
  return alert;
}

std::optional<AlertRow> clear_alert(Database& database, const std::string& rule, const std::string& run,
                                    const std::string& subject, std::int64_t now_ms) {
  Statement update = database.prepare(
      "UPDATE alerts SET cleared_ms = ? WHERE rule = ? AND run = ? AND subject = ? AND cleared_ms IS NULL RETURNING "
      "alert, id, rule, kind, run, subject, message, value, threshold, raised_ms, cleared_ms, acknowledged_ms, "
      "acknowledged_by");
  update.bind(now_ms, rule, run, subject);
  return first_alert(update);
}

std::optional<AlertRow> acknowledge_alert(Database& database, std::string_view id, const std::string& actor,
                                          std::int64_t now_ms) {
  Statement update = database.prepare(
      "UPDATE alerts SET acknowledged_ms = coalesce(acknowledged_ms, ?2), "
      "acknowledged_by = CASE WHEN acknowledged_ms IS NULL THEN ?3 ELSE acknowledged_by END WHERE id = ?1 RETURNING "
      "alert, id, rule, kind, run, subject, message, value, threshold, raised_ms, cleared_ms, acknowledged_ms, "
      "acknowledged_by");
  update.bind(id, now_ms, actor);
  return first_alert(update);
}

std::vector<RunningRow> list_running(Reader& reader) {
  Statement rows = reader.database.prepare(
      "SELECT id, attempt, coalesce((SELECT max(last_update) FROM ranks WHERE ranks.run = runs.run AND "
      "ranks.attempt = runs.attempt), 0), begun_by FROM runs WHERE state = 'running' ORDER BY run");
  std::vector<RunningRow> runs;
  while (rows.step()) runs.push_back({rows.text(0), rows.integer(1), rows.integer(2), rows.text(3)});
  return runs;
}

}  // namespace babelring::store
