#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

/// Alert rules over ingested records, and the alerts they raise. Independent of the database.
namespace babelring::alerts {

enum class Kind {
  nan,              // non-finite loss or gradient in `threshold` or more of the last 100 updates or an evaluation
  stall,            // no update of a running run for `threshold` seconds
  throughput_drop,  // tokens per second below `threshold` times the usual rate
  loss_spike,       // loss above `threshold` times the usual loss
  disk_low,         // fewer than `threshold` bytes free on the file system of the database or a checkpoint folder
  worker_lost,      // no record or heartbeat from a rank for `threshold` seconds while another rank reports
  ranks_differ,     // weights differ between ranks after `threshold` or more updates
  silent,           // no record or heartbeat from a running run for `threshold` seconds
  restarted,        // the `threshold`th or a later restart after a fault since the run was started or resumed
  failed,           // a run failed or was lost that has `threshold` or more updates
  finished,         // a run with `threshold` or more updates completed its training
};
inline constexpr std::array<std::string_view, 11> kind_names = {
    "nan",          "stall",  "throughput_drop", "loss_spike", "disk_low", "worker_lost",
    "ranks_differ", "silent", "restarted",       "failed",     "finished"};
std::string_view to_string(Kind kind);
/// Whether a change of a run's state, instead of a condition that lasts, raises alerts of this kind.
bool is_event(Kind kind);
std::optional<Kind> kind_of(std::string_view name);

/// An alert rule. A condition that holds for `hold_s` seconds raises an alert. The alert is cleared once the condition
/// has been clearly over (ratios: half way back to 1) for `clear_s` seconds. This hysteresis gives one alert per fault.
/// An event raises an alert at once: `hold_s` is 0.
struct Rule {
  std::string name;  // unique; 1 to 64 characters of [a-z0-9_-]
  Kind kind = Kind::nan;
  bool enabled = true;
  double threshold = 1;
  double hold_s = 0, clear_s = 0;
  std::string run;  // this run only; empty: all
};

/// Whether the rule is enabled and meant for the run. `run` empty: for the server itself.
bool applies(const Rule& rule, const std::string& run);

/// The rules of a new database: one of each kind.
std::vector<Rule> default_rules();

inline constexpr std::size_t max_rules = 100;

/// Checks the values of a rule. The error begins with a member: "threshold: expected …, found …".
Status check_rule(const Rule& rule);

}  // namespace babelring::alerts
