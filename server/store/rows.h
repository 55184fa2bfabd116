#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace babelring::store {

inline constexpr double absent = std::numeric_limits<double>::quiet_NaN();

/// The newest step of a run or rank, by metric key.
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
  std::string body;     // JSON object of the record's own members, without samples
  std::string samples;  // JSON array; only when asked for
};

struct RunRow {
  std::int64_t number = 0;  // creation order
  std::string id, name, state, detail, version, config;
  std::int64_t attempt = 1, created_ms = 0, updated_ms = 0, started_ms = 0;
  std::optional<std::int64_t> finished_ms;
  std::int64_t world_size = 0, parameters = 0, max_updates = 0;
  std::vector<std::string> hosts;  // of the current attempt's ranks, each once, in the order of ranks
  LastStep last;                   // of the lowest rank, newest attempt
  std::optional<EvalRow> last_eval, best_eval;
};

struct RankRow {
  std::int64_t rank = 0, attempt = 0, pid = 0, first_update = 0, last_update = 0, updated_ms = 0;
  std::int64_t records = 0, missing = 0;
  std::string host, device;
  LastStep last;
};

struct CheckpointRow {
  std::int64_t number = 0;
  std::string id, run, name, folder;
  std::int64_t step = 0, created_ms = 0;
  std::string files;  // JSON array of {name, size, sha256}
  double sacrebleu = absent, loss = absent, write_seconds = absent;
  bool best = false, removed = false;
};

struct LogRow {
  std::int64_t number = 0, attempt = 0, rank = 0, time_ms = 0;
  std::string level, text;
};

/// Which runs to list: newest first, those created before `before` (0: all).
struct RunFilter {
  std::string state, text;
  std::int64_t before = 0, limit = 50;
};

/// Which logs: oldest first after `after`, or with `tail` the last `limit` of them.
struct LogFilter {
  std::optional<std::int64_t> rank;
  std::string level, text;
  std::int64_t after = 0, limit = 200;
  bool tail = false;
};

}  // namespace babelring::store
