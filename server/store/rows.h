#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace babelring::store {

inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

/// The newest step of a run or rank; its values by metric key.
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
  std::string body;     // JSON object of the EvalRecord's members but the samples
  std::string samples;  // JSON array; only read by find_eval()
};

struct RunRow {
  std::int64_t number = 0;  // creation order
  std::string id, name, state, detail, version, config;
  std::int64_t attempt = 1, created_ms = 0, updated_ms = 0, started_ms = 0;
  std::optional<std::int64_t> finished_ms;
  std::int64_t world_size = 0, parameters = 0, max_updates = 0;
  std::string end;                                         // what ends the training, in words; empty: not known
  bool may_end_sooner = false;                             // by early stopping
  std::string profile = "external", labels = "{}", notes;  // labels: a JSON object of texts
  bool archived = false;
  std::optional<std::int64_t> deleted_ms;
  std::optional<std::int64_t> restarts, max_restarts;  // of runs that the server started
  std::vector<std::string> hosts;  // of the current attempt's ranks, each once, in the order of ranks
  LastStep last;                   // of the lowest rank, newest attempt
  std::optional<EvalRow> last_eval, best_eval;
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
  std::string version;          // of the program that wrote it; empty: unknown
  std::int64_t world_size = 0;  // ranks that trained it; 0: unknown
};

/// Which checkpoints to list: by update or by sacreBLEU, greatest first, starting after `before`.
struct CheckpointFilter {
  std::optional<bool> complete, pinned;
  bool removed = false;  // include removed ones
  bool by_bleu = false;
  std::pair<std::int64_t, std::int64_t> before;  // step and number of the previous page's last; {0, 0}: first page
  std::int64_t limit = 50;
};

struct LogRow {
  std::int64_t line = 0, attempt = 0, rank = 0, time_ms = 0;
  std::string level, text;
};

/// Which runs to list. Deleted ones are never listed.
struct RunFilter {
  enum class Order { newest_first, oldest_first, last_changed_first } order = Order::newest_first;
  std::vector<std::string> states;  // any of these; empty: any
  std::string text;
  std::string label_name, label_value;  // the run has this label; the value counts if label_has_value
  bool label_has_value = false;
  std::int64_t created_after_ms = 0, updated_after_ms = 0;
  std::optional<bool> archived;
  /// Where the previous page ended: {number, 0}, or for last_changed_first {updated_ms, number}; {0, 0}: first page.
  std::pair<std::int64_t, std::int64_t> after{0, 0};
  std::int64_t limit = 50;
};

/// Which lines of a log to read: those after number `after`, or with `tail` the last ones.
struct LogFilter {
  std::optional<std::int64_t> rank;
  std::string level, text;
  std::int64_t after = 0, limit = 200;
  std::size_t most_bytes = 768 << 10;  // of text
  bool tail = false;
};

}  // namespace babelring::store
