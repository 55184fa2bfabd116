#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/store/run_state.h"

namespace babelring::store {

inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

/// The newest step of a run or rank, with its values by metric key.
struct LastStep {
  std::int64_t step = 0, time_ms = 0;
  std::map<std::string, double> values;
  double value(const std::string& key) const {
    const auto found = values.find(key);
    return found == values.end() ? absent : found->second;
  }
};

struct EvalRow {
  std::string id, run;
  std::int64_t step = 0, time_ms = 0, sample_count = 0;
  std::string body;     // JSON object of the EvalRecord without its samples
  std::string samples;  // JSON array; set only by find_eval()
};

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
  bool archived = false;
  std::optional<std::int64_t> deleted_ms;
  std::optional<std::int64_t> restarts, max_restarts;  // only for runs started by the server
  std::vector<std::string> hosts;                      // of the current attempt, without duplicates, in rank order
  LastStep last;                                       // of rank 0 in the newest attempt
  std::optional<EvalRow> last_eval, best_eval;

  /// A user started it by hand; no profile of the server describes it.
  bool is_external() const { return profile == "external"; }
};

struct RankRow {
  std::int64_t rank = 0, attempt = 0, pid = 0, first_update = 0, last_update = 0, updated_ms = 0;
  std::int64_t records = 0, missing = 0;
  std::string host, device;
  LastStep last;

  bool on_gpu() const { return device.find("cuda") != std::string::npos || device.find("NVIDIA") != std::string::npos; }
};

struct CheckpointRow {
  std::int64_t number = 0;
  std::string id, run, name, folder;
  std::int64_t step = 0, created_ms = 0;
  std::string files;  // JSON array of {name, size, sha256}
  double sacrebleu = absent, loss = absent, write_seconds = absent;
  bool best = false, removed = false, pinned = false;
  std::string version;          // program version that wrote it; empty: unknown
  std::int64_t world_size = 0;  // number of ranks of the training; 0: unknown
};

/// Selects checkpoints to list: ordered by update or by sacreBLEU, descending, starting after `before`.
struct CheckpointFilter {
  std::optional<bool> complete, pinned;
  bool removed = false;  // include removed checkpoints
  bool by_bleu = false;
  std::pair<std::int64_t, std::int64_t> before;  // (step, number) of the previous page's last row; {0, 0}: first page
  std::int64_t limit = 50;
};

struct LogRow {
  std::int64_t line = 0, attempt = 0, rank = 0, time_ms = 0;
  std::string level, text;
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

/// Selects lines of a log: the first after number `after`, or the last ones with `tail`.
struct LogFilter {
  std::optional<std::int64_t> rank;
  std::string level, text;
  std::int64_t after = 0, limit = 200;
  std::size_t max_bytes = 768 << 10;  // of text
  bool tail = false;
};

}  // namespace babelring::store
