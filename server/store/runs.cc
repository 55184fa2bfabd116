#include <algorithm>

#include "base/json.h"
#include "server/store/metrics.h"
#include "server/store/runs.h"
#include "server/store/sequence_set.h"

namespace babelring::store {
namespace {

constexpr std::string_view run_columns =
    "SELECT run, id, name, state, detail, version, config, attempt, created_ms, updated_ms, started_ms, finished_ms, "
    "world_size, parameters, max_updates, profile, labels, notes, archived, deleted_ms, restarts, max_restarts, "
    "end_text, may_end_sooner "
    "FROM runs LEFT JOIN launches USING (run) ";

RunRow run_of(const Statement& row) {
  RunRow run;
  run.number = row.integer(0);
  run.id = row.text(1);
  run.name = row.text(2);
  run.state = row.text(3);
  run.detail = row.text(4);
  run.version = row.text(5);
  run.config = row.text(6);
  run.attempt = row.integer(7);
  run.created_ms = row.integer(8);
  run.updated_ms = row.integer(9);
  run.started_ms = row.integer(10);
  if (!row.is_null(11)) run.finished_ms = row.integer(11);
  run.world_size = row.integer(12);
  run.parameters = row.integer(13);
  run.max_updates = row.integer(14);
  run.profile = row.text(15);
  run.labels = row.text(16);
  run.notes = row.text(17);
  run.archived = row.integer(18) != 0;
  if (!row.is_null(19)) run.deleted_ms = row.integer(19);
  if (!row.is_null(20)) run.restarts = row.integer(20);
  if (!row.is_null(21)) run.max_restarts = row.integer(21);
  run.end = row.text(22);
  run.may_end_sooner = row.integer(23) != 0;
  return run;
}

LastStep last_step(Reader& reader, std::int64_t run, std::int64_t rank) {
  Statement row = reader.database.prepare(
      "SELECT step, time_ms, layout, vals FROM steps WHERE run = ? AND rank = ? ORDER BY attempt DESC, step DESC LIMIT "
      "1");
  row.bind(run, rank);
  LastStep last;
  if (!row.step()) return last;
  last.step = row.integer(0);
  last.time_ms = row.integer(1);
  const auto& keys = reader.layouts.keys(row.integer(2));
  const PackedDoubles values(row.blob(3));
  for (std::size_t i = 0; i < std::min(keys.size(), values.size()); ++i) last.values[keys[i]] = values[i];
  return last;
}

/// The evaluation set named in the body.
std::string set_of(const std::string& body) {
  const auto parsed = parse_json(body);
  const json::value* set = parsed && parsed->is_object() ? parsed->get_object().if_contains("set") : nullptr;
  return set != nullptr && set->is_string() ? std::string(set->get_string()) : "";
}

/// The run's validation set: that of its first evaluation. Evaluations on other sets are external reports.
std::string validation_set(Reader& reader, const RunRow& run) {
  Statement row = reader.database.prepare("SELECT body FROM evals WHERE run = ? ORDER BY eval LIMIT 1");
  row.bind(run.number);
  return row.step() ? set_of(row.text(0)) : "";
}

/// The query's first evaluation on this set.
std::optional<EvalRow> one_eval(Reader& reader, const RunRow& run, const std::string& set, std::string_view sql) {
  Statement row = reader.database.prepare(sql);
  row.bind(run.number);
  do {
    if (!row.step()) return std::nullopt;
  } while (set_of(row.text(4)) != set);
  EvalRow eval;
  eval.id = row.text(0);
  eval.run = run.id;
  eval.step = row.integer(1);
  eval.time_ms = row.integer(2);
  eval.sample_count = row.integer(3);
  eval.body = row.text(4);
  return eval;
}

std::vector<std::string> hosts_of(Reader& reader, const RunRow& run) {
  Statement rows = reader.database.prepare(
      "SELECT host FROM ranks WHERE run = ? AND attempt = ? AND host <> '' GROUP BY host ORDER BY min(rank)");
  rows.bind(run.number, run.attempt);
  std::vector<std::string> hosts;
  while (rows.step()) hosts.push_back(rows.text(0));
  return hosts;
}

void complete(Reader& reader, RunRow& run) {
  run.hosts = hosts_of(reader, run);
  run.last = last_step(reader, run.number, 0);
  const std::string set = validation_set(reader, run);
  run.last_eval = one_eval(reader, run, set,
                           "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? ORDER BY eval DESC");
  run.best_eval = one_eval(reader, run, set,
                           "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? AND "
                           "(sacrebleu IS NOT NULL OR json_extract(body, '$.loss') IS NOT NULL) "
                           "ORDER BY sacrebleu DESC NULLS LAST, best DESC, eval DESC");
}

/// A LIKE pattern in which % and _ of the user's text are literal.
std::string like_pattern(std::string_view text) {
  std::string pattern = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + '%';
}

}  // namespace

std::optional<RunRow> find_run(Reader& reader, std::string_view id) {
  std::optional<RunRow> run;
  {
    static const std::string sql = std::string(run_columns) + "WHERE id = ?";
    Statement row = reader.database.prepare(sql);
    row.bind(id);
    if (row.step()) run = run_of(row);
  }
  if (run) complete(reader, *run);
  return run;
}

std::vector<RunRow> list_runs(Reader& reader, const RunFilter& filter) {
  // One constant statement per order: SQL is never built from the request.
  static const std::string chosen = std::string(run_columns) +
                                    "WHERE deleted_ms IS NULL AND (?3 = '' OR instr(?3, ',' || state || ',')) AND (?4 "
                                    "= '%%' OR name LIKE ?4 ESCAPE '\\' OR "
                                    "id LIKE ?4 ESCAPE '\\') AND created_ms > ?5 AND updated_ms > ?11 AND (?6 < 0 OR "
                                    "archived = ?6) AND (?7 = '' OR EXISTS (SELECT 1 FROM "
                                    "json_each(labels) WHERE key = ?7 AND (NOT ?8 OR value = ?9))) AND ";
  static const std::string newest_first = chosen + "(?1 = 0 OR run < ?1) AND ?2 = 0 ORDER BY run DESC LIMIT ?10";
  static const std::string oldest_first = chosen + "run > ?1 AND ?2 = 0 ORDER BY run LIMIT ?10";
  static const std::string last_changed =
      chosen + "(?1 = 0 OR (updated_ms, run) < (?1, ?2)) ORDER BY updated_ms DESC, run DESC LIMIT ?10";
  std::vector<RunRow> runs;
  {
    using Order = RunFilter::Order;
    const std::string pattern = like_pattern(filter.text);
    std::string states;  // ",running,stopping,"
    for (const std::string& state : filter.states) states += (states.empty() ? "," : "") + state + ',';
    Statement rows = reader.database.prepare(filter.order == Order::newest_first   ? newest_first
                                             : filter.order == Order::oldest_first ? oldest_first
                                                                                   : last_changed);
    rows.bind(filter.after.first, filter.after.second, states, pattern, filter.created_after_ms,
              filter.archived ? static_cast<int>(*filter.archived) : -1, filter.label_name, filter.label_has_value,
              filter.label_value, filter.limit, filter.updated_after_ms);
    while (rows.step()) runs.push_back(run_of(rows));
  }
  for (RunRow& run : runs) complete(reader, run);
  return runs;
}

std::vector<std::pair<std::string, std::int64_t>> count_runs(Reader& reader) {
  Statement rows = reader.database.prepare("SELECT state, count(*) FROM runs GROUP BY state");
  std::vector<std::pair<std::string, std::int64_t>> counts;
  while (rows.step()) counts.emplace_back(rows.text(0), rows.integer(1));
  return counts;
}

std::vector<RankRow> list_ranks(Reader& reader, std::int64_t run, std::int64_t attempt, std::int64_t first,
                                std::int64_t limit) {
  std::vector<RankRow> ranks;
  {
    Statement rows = reader.database.prepare(
        "SELECT rank, host, pid, device, first_update, last_update, updated_ms FROM ranks WHERE run = ? AND attempt = "
        "? AND rank >= ? ORDER BY rank LIMIT ?");
    rows.bind(run, attempt, first, limit);
    while (rows.step()) {
      RankRow rank;
      rank.rank = rows.integer(0);
      rank.attempt = attempt;
      rank.host = rows.text(1);
      rank.pid = rows.integer(2);
      rank.device = rows.text(3);
      rank.first_update = rows.integer(4);
      rank.last_update = rows.integer(5);
      rank.updated_ms = rows.integer(6);
      ranks.push_back(std::move(rank));
    }
  }
  for (RankRow& rank : ranks) {
    SequenceSet::Ranges ranges;
    Statement rows =
        reader.database.prepare("SELECT first, last FROM arrivals WHERE run = ? AND attempt = ? AND rank = ?");
    rows.bind(run, attempt, rank.rank);
    while (rows.step()) ranges.emplace(rows.integer(0), rows.integer(1));
    const SequenceSet arrived(std::move(ranges));
    rank.records = arrived.size();
    rank.missing = arrived.missing();
    rank.last = last_step(reader, run, rank.rank);
  }
  return ranks;
}

}  // namespace babelring::store
