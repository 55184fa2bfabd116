#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// When somebody should look at a run: rules over what is ingested, and the alerts they raise. Knows no database.
namespace babelring::alerts {

enum class Kind {
  nan,              // non-finite loss or gradient: in at least `threshold` of the last 100 updates, or an evaluation
  stall,            // no update of a running run for `threshold` seconds
  throughput_drop,  // tokens a second below `threshold` times what was usual
  loss_spike,       // loss above `threshold` times what was usual
  disk_low,         // fewer than `threshold` bytes free beside the database or below a checkpoint root
  worker_lost,      // nothing from a rank for `threshold` seconds while another rank reports
  ranks_differ,     // weights of ranks differ after the same update, in at least `threshold` updates
};
inline constexpr std::array<std::string_view, 7> kind_names = {
    "nan", "stall", "throughput_drop", "loss_spike", "disk_low", "worker_lost", "ranks_differ"};
std::string_view to_string(Kind kind);
std::optional<Kind> kind_of(std::string_view name);

/// One rule. A condition raises an alert when it has held for `hold_s`, and the alert is cleared when the condition has
/// been clearly gone (for ratios: half way back) for `clear_s`: one fault, one alert.
struct Rule {
  std::string name;  // unique, of [a-z0-9_-], at most 64
  Kind kind = Kind::nan;
  bool enabled = true;
  double threshold = 1;
  double hold_s = 0, clear_s = 0;
  std::string run;  // this run only; empty: all
};

/// Those a new database has: one of each kind.
std::vector<Rule> default_rules();

inline constexpr std::size_t most_rules = 100;

/// What is wrong with a rule ("threshold: expected …, found …"), or nothing.
std::optional<std::string> fault_of(const Rule& rule);

}  // namespace babelring::alerts
