#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/readers.h"

/// Alert rules and alerts. Kinds are plain texts here: server/alerts knows what they mean. All functions throw
/// SqlFailure; those with a Database& are called within Store::write.
namespace babelring::store {

struct AlertRuleRow {
  std::string name, kind, run;  // run empty: all
  bool enabled = true;
  double threshold = 0, hold_s = 0, clear_s = 0;
};

struct AlertRow {
  std::int64_t number = 0;
  std::string id, rule, kind, run, subject, message;  // run empty: the server's own
  double value = 0, threshold = 0;
  std::int64_t raised_ms = 0;
  std::optional<std::int64_t> cleared_ms, acknowledged_ms;
  std::string acknowledged_by;
};

/// In the order in which they were given.
std::vector<AlertRuleRow> list_alert_rules(Reader& reader);
void replace_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules);
/// Stores `rules` unless there ever were any.
void found_alert_rules(Database& database, const std::vector<AlertRuleRow>& rules);

/// Newest first, those before number `before` (0: all), of one run (empty: all). `state`: open, cleared, or empty
/// for both.
std::vector<AlertRow> list_alerts(Reader& reader, const std::string& run, const std::string& state, std::int64_t before,
                                  std::int64_t limit);
std::vector<AlertRow> open_alerts(Reader& reader);
/// What counts for the health of one run, or with an empty id of all: what is open, and of kind ranks_differ also what
/// was cleared when the run ended.
std::vector<AlertRow> lasting_alerts(Reader& reader, const std::string& run);

/// Stores an alert and returns it; does nothing if one of its (rule, run, subject) is open.
std::optional<AlertRow> raise_alert(Database& database, AlertRow alert);
/// Clears the open alert of (rule, run, subject) and returns it; nothing if none is open.
std::optional<AlertRow> clear_alert(Database& database, const std::string& rule, const std::string& run,
                                    const std::string& subject, std::int64_t now_ms);
/// Only the first acknowledgement counts. Returns the alert, or nothing if there is none of that id.
std::optional<AlertRow> acknowledge_alert(Database& database, std::string_view id, const std::string& actor,
                                          std::int64_t now_ms);

struct RunningRow {
  std::string run;  // its id
  std::int64_t attempt = 0;
  std::int64_t update = 0;  // the newest of that attempt
  std::string begun_by;     // id of the token that reported it first; empty: not known, or the server started it
};
std::vector<RunningRow> list_running(Reader& reader);

}  // namespace babelring::store
