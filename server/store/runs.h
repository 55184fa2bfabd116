#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/store/attempts.h"
#include "server/store/evals.h"
#include "server/store/readers.h"
#include "server/store/steps.h"

/// Runs. All functions throw SqlFailure.
namespace babelring::store {

struct RunRow {
  std::int64_t number = 0;  // creation order
  std::string id, name, detail, version, config;
  RunState state = RunState::running;
  std::int64_t attempt = 1, created_ms = 0, updated_ms = 0, started_ms = 0;
  std::optional<std::int64_t> finished_ms;
  std::int64_t world_size = 0, parameters = 0, max_updates = 0;
  std::string end;                                         // the training's end condition, as text; empty: unknown
  bool may_end_sooner = false;                             // early stopping is enabled
  std::string profile = "external", labels = "{}", notes;  // labels: a JSON object of strings
  bool archived = false, emulated = false;                 // emulated: its ranks wait instead of computing
  double bucket_mb = 0;                                    // of gradients in an all-reduce; 0: unknown, or without
  std::string optimizer;                                   // LifecycleRecord::optimizer
  std::optional<std::int64_t> deleted_ms;
  /// When the newest record came, by the clock that started_ms and finished_ms are of; 0: rank 0 of the attempt has
  /// sent none. created_ms and updated_ms are of the server's clock.
  std::int64_t reported_ms = 0;
  std::optional<std::int64_t> restarts, max_restarts;  // only for runs started by the server
  std::int64_t faults = 0;                             // earlier attempts that ended so; only for those started by hand
  std::int64_t restarted_ms = 0;                       // time of the newest restart after a fault; 0: none was counted
  std::string restart_cause;                           // its fault
  std::vector<std::string> hosts;                      // of the current attempt, without duplicates, in rank order
  LastStep last;                                       // of rank 0 in the newest attempt
  std::optional<EvalRow> last_eval, best_eval;

  /// A user started it by hand; no profile of the server describes it.
  bool is_external() const { return profile == "external"; }
};

/// Selects runs to list. Deleted runs are never listed.
struct RunFilter {
  enum class Order { newest_first, oldest_first, last_changed_first } order = Order::newest_first;
  std::vector<RunState> states;  // any of these; empty: any
  std::string text;
  std::string label_name, label_value;  // label the run must have; the value matters only if label_has_value
  bool label_has_value = false;
  std::int64_t created_after_ms = 0, updated_after_ms = 0;
  std::optional<bool> archived;
  /// End of the previous page: {number, 0}, or {updated_ms, number} for last_changed_first. {0, 0}: first page.
  std::pair<std::int64_t, std::int64_t> after{0, 0};
  std::int64_t limit = 50;
};

std::optional<RunRow> find_run(Reader& reader, std::string_view id);
std::vector<RunRow> list_runs(Reader& reader, const RunFilter& filter);
/// Number of runs in each state.
std::vector<std::pair<RunState, std::int64_t>> count_runs(Reader& reader);

struct RunningRow {
  std::string run;  // its id
  std::int64_t attempt = 0;
  std::int64_t update = 0;  // newest update of that attempt
  std::string begun_by;     // id of the token that first reported it; empty: unknown, or started by the server
  bool emulated = false;
};
/// All runs in state running.
std::vector<RunningRow> list_running(Reader& reader);

}  // namespace babelring::store
