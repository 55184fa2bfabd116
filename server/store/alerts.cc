#include "server/store/alerts.h"

#include "base/names.h"
#include "base/records/records.h"

namespace babelring::store {

template <const_or_not<AlertRuleRow> Row, class Column>
void visit_columns(Row& rule, Column&& column) {
  column("name", rule.name);
  column("kind", rule.kind);
  column("run", rule.run);
  column("enabled", rule.enabled);
  column("threshold", rule.threshold);
  column("hold_s", rule.hold_s);
  column("clear_s", rule.clear_s);
}

template <const_or_not<AlertRow> Row, class Column>
void visit_columns(Row& alert, Column&& column) {
  column.key("alert", alert.number);
  column("id", alert.id);
  column("rule", alert.rule);
  column("kind", alert.kind);
  column("run", alert.run);
  column("subject", alert.subject);
  column("message", alert.message);
  column("value", alert.value);
  column("threshold", alert.threshold);
  column("raised_ms", alert.raised_ms);
  column("cleared_ms", alert.cleared_ms);
  column("acknowledged_ms", alert.acknowledged_ms);
  column("acknowledged_by", alert.acknowledged_by);
  column("reached", alert.update);
}

template <const_or_not<UntoldTransition> Row, class Column>
void visit_columns(Row& transition, Column&& column) {
  column("t.transition", transition.number);
  column("t.attempt", transition.attempt);
  column("r.id", transition.run);
  column("r.begun_by", transition.begun_by);
  column("t.cause", transition.cause);
  column("t.old_state", transition.before);
  column("t.new_state", transition.after);
  column(
      "(SELECT count(*) FROM transitions x WHERE x.run = t.run AND x.new_state = 'restarting' AND x.transition <= "
      "t.transition AND x.transition > coalesce((SELECT max(y.transition) FROM transitions y WHERE y.run = t.run AND "
      "y.event = 'resume_requested' AND y.transition <= t.transition), 0))",
      transition.restarts);
  column("coalesce(l.max_restarts, 0)", transition.max_restarts);
  column(
      "CASE WHEN t.event = 'newer_attempt' THEN (SELECT count(*) FROM attempts a WHERE a.run = t.run AND a.attempt < "
      "t.attempt AND a.outcome NOT IN ('finished', 'stopped')) ELSE 0 END",
      transition.faults);
  column(
      "coalesce((SELECT outcome FROM attempts a WHERE a.run = t.run AND a.attempt < t.attempt ORDER BY a.attempt DESC "
      "LIMIT 1), '')",
      transition.outcome_before);
  column(
      "coalesce((SELECT coalesce(nullif(outcome_detail, ''), cause) FROM attempts a WHERE a.run = t.run AND a.attempt "
      "< t.attempt ORDER BY a.attempt "
      "DESC LIMIT 1), '')",
      transition.detail_before);
  column("t.event = 'newer_attempt'", transition.by_hand);
  column("coalesce((SELECT max(last_update) FROM ranks WHERE ranks.run = t.run AND rank = 0), 0)", transition.update);
}

template <const_or_not<RunAfterRow> Row, class Column>
void visit_columns(Row& run, Column&& column) {
  column("begun_by", run.begun_by);
  column("attempt", run.attempt);
  column("state", run.state);
  column("EXISTS (SELECT 1 FROM ranks WHERE ranks.run = runs.run AND ranks.attempt = runs.attempt AND last_update > 0)",
         run.trains);
  column("archived OR deleted_ms IS NOT NULL", run.hidden);
}

namespace {

void insert_rules(Database& database, const std::vector<AlertRuleRow>& rules) {
  static const std::string sql =
      "INSERT INTO alert_rules(place, " + columns_of<AlertRuleRow>() + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
  std::int64_t place = 0;
  for (const AlertRuleRow& rule : rules) database.prepare(sql).bind(++place, rule).run();
}

}  // namespace

std::vector<AlertRuleRow> list_alert_rules(Reader& reader) {
  static const std::string sql = select<AlertRuleRow>("FROM alert_rules WHERE place > 0 ORDER BY place");
  return reader.database.prepare(sql).all<AlertRuleRow>();
}

void replace_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules) {
  database.prepare("DELETE FROM alert_rules WHERE place > 0").run();
  insert_rules(database, rules);
}

void add_default_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules) {
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
  static const std::string of_all = select<AlertRow>("FROM alerts WHERE ?1 = '' AND " + chosen);
  static const std::string of_run = select<AlertRow>("FROM alerts WHERE run = ?1 AND " + chosen);  // by its index
  return reader.database.prepare(run.empty() ? of_all : of_run).bind(run, state, before, limit).all<AlertRow>();
}

std::vector<AlertRow> open_alerts(Reader& reader) {
  static const std::string sql = select<AlertRow>("FROM alerts WHERE cleared_ms IS NULL ORDER BY alert");
  return reader.database.prepare(sql).all<AlertRow>();
}

std::vector<AlertRow> lasting_alerts(Reader& reader, const std::string& run) {
  static const auto lasting = [](const std::string& condition) {
    return select<AlertRow>("FROM alerts WHERE " + condition + " AND cleared_ms IS NULL UNION ALL ") +
           select<AlertRow>("FROM alerts WHERE " + condition + " AND kind = 'ranks_differ' AND cleared_ms IS NOT NULL");
  };
  static const std::string of_all = lasting("?1 = ''"), of_run = lasting("run = ?1");
  return reader.database.prepare(run.empty() ? of_all : of_run).bind(run).all<AlertRow>();
}

std::vector<UntoldTransition> untold_transitions(Reader& reader, std::int64_t limit) {
  static const std::string sql = select<UntoldTransition>(
      "FROM transitions t JOIN runs r USING (run) LEFT JOIN launches l USING (run) WHERE told = 0 AND "
      "(event = 'newer_attempt' OR new_state IN ('restarting', 'failed', 'lost', 'succeeded')) ORDER BY t.transition "
      "LIMIT ?");
  return reader.database.prepare(sql).bind(limit).all<UntoldTransition>();
}

void mark_told(Database& database, std::int64_t transition) {
  database.prepare("UPDATE transitions SET told = 1 WHERE transition = ?").bind(transition).run();
}

std::optional<RunAfterRow> find_run_after(Reader& reader, const std::string& run) {
  static const std::string sql = select<RunAfterRow>("FROM runs WHERE id = ?");
  return reader.database.prepare(sql).bind(run).first<RunAfterRow>();
}

std::optional<AlertRow> raise_alert(Database& database, AlertRow alert) {
  static const std::string sql = insert_into<AlertRow>("alerts", "ON CONFLICT DO NOTHING RETURNING alert");
  alert.id = make_id('a');
  alert.update = database
                     .prepare(
                         "SELECT coalesce((SELECT last_update FROM ranks k JOIN runs r ON r.run = k.run WHERE r.id = ? "
                         "AND rank = 0 AND last_update > 0 ORDER BY k.attempt DESC LIMIT 1), 0)")
                     .bind(alert.run)
                     .value<std::int64_t>();
  Statement insert = database.prepare(sql);
  if (!insert.bind(alert).next(alert.number)) return std::nullopt;
  return alert;
}

std::optional<AlertRow> clear_alert(Database& database, const std::string& rule, const std::string& run,
                                    const std::string& subject, std::int64_t now_ms) {
  static const std::string sql =
      "UPDATE alerts SET cleared_ms = ? WHERE rule = ? AND run = ? AND subject = ? AND cleared_ms IS NULL RETURNING " +
      columns_of<AlertRow>();
  return database.prepare(sql).bind(now_ms, rule, run, subject).first<AlertRow>();
}

std::optional<AlertRow> acknowledge_alert(Database& database, std::string_view id, const std::string& actor,
                                          std::int64_t now_ms) {
  static const std::string sql =
      "UPDATE alerts SET acknowledged_ms = coalesce(acknowledged_ms, ?2), acknowledged_by = "
      "CASE WHEN acknowledged_ms IS NULL THEN ?3 ELSE acknowledged_by END WHERE id = ?1 RETURNING " +
      columns_of<AlertRow>();
  return database.prepare(sql).bind(id, now_ms, actor).first<AlertRow>();
}

}  // namespace babelring::store
