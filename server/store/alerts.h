#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/attempts.h"
#include "server/store/readers.h"

/// Alert rules and alerts. A kind is an uninterpreted string here; server/alerts defines the kinds. All functions throw
/// SqlFailure. Call those that take a Database& inside Store::write.
namespace babelring::store {

struct AlertRuleRow {
  std::string name, kind, run;  // run empty: all runs
  bool enabled = true;
  double threshold = 0, hold_s = 0, clear_s = 0;
};

struct AlertRow {
  std::int64_t number = 0;
  std::string id, rule, kind, run, subject, message;  // run empty: an alert about the server
  double value = 0, threshold = 0;
  std::int64_t raised_ms = 0;
  std::optional<std::int64_t> cleared_ms, acknowledged_ms;
  std::string acknowledged_by;
  std::int64_t update = 0;  // rank 0's newest when it was raised, which raise_alert() finds; 0: none
};

/// A change of a run's state of which alert rules may tell: to restarting, failed, lost or succeeded, or an attempt
/// that a user began.
struct UntoldTransition {
  std::int64_t number = 0, attempt = 0;
  std::string run, begun_by, cause;  // begun_by: token that first reported the run, or empty
  RunState before = RunState::running, after = RunState::running;
  std::int64_t restarts = 0, max_restarts = 0;  // since the run was started or resumed, this transition included
  std::int64_t update = 0;                      // newest update of rank 0
  bool by_hand = false;                         // a user began that attempt. Only then:
  std::int64_t faults = 0;                      // earlier attempts that neither finished nor were stopped
  Outcome outcome_before = Outcome::none;       // of the attempt before it, with its reason
  std::string detail_before;
};

/// A run of which alerts about events are open.
struct RunAfterRow {
  std::string begun_by;
  std::int64_t attempt = 0;
  RunState state = RunState::running;
  bool trains = false;  // that attempt has completed an update
  bool hidden = false;  // archived or deleted
};

/// The rules in the order of the last replace_alert_rules().
std::vector<AlertRuleRow> list_alert_rules(Reader& reader);
void replace_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules);
/// Stores the default rules in a new database. Does nothing if rules have ever been stored.
void add_default_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules);

/// Alerts with a number below `before` (0: all), newest first. `run` empty: all runs. `state`: "open", "cleared", or
/// empty for both.
std::vector<AlertRow> list_alerts(Reader& reader, const std::string& run, const std::string& state, std::int64_t before,
                                  std::int64_t limit);
std::vector<AlertRow> open_alerts(Reader& reader);
/// Alerts that affect a run's health: open alerts, and alerts of kind ranks_differ that were cleared by the end of the
/// run. `run` empty: all runs.
std::vector<AlertRow> lasting_alerts(Reader& reader, const std::string& run);

/// Up to `limit` transitions that the alert rules have not seen, oldest first. Those of deleted runs are included.
std::vector<UntoldTransition> untold_transitions(Reader& reader, std::int64_t limit);
/// Marks a transition as seen by the alert rules.
void mark_told(Database& database, std::int64_t transition);
/// Returns nothing if the run is unknown.
std::optional<RunAfterRow> find_run_after(Reader& reader, const std::string& run);

/// Stores an alert and returns it. Does nothing if an alert of the same (rule, run, subject) is open.
std::optional<AlertRow> raise_alert(Database& database, AlertRow alert);
/// Clears the open alert of (rule, run, subject) and returns it. Returns nothing if none is open.
std::optional<AlertRow> clear_alert(Database& database, const std::string& rule, const std::string& run,
                                    const std::string& subject, std::int64_t now_ms);
/// Acknowledges an alert; later acknowledgements change nothing. Returns the alert, or nothing if the id is unknown.
std::optional<AlertRow> acknowledge_alert(Database& database, std::string_view id, const std::string& actor,
                                          std::int64_t now_ms);

}  // namespace babelring::store
