#include <algorithm>

#include "server/store/queries.h"

namespace babelring::store {
namespace {

CheckpointRow checkpoint_of(const Statement& row) {
  CheckpointRow checkpoint;
  checkpoint.number = row.integer(0);
  checkpoint.id = row.text(1);
  checkpoint.run = row.text(2);
  checkpoint.name = row.text(3);
  checkpoint.step = row.integer(4);
  checkpoint.created_ms = row.integer(5);
  checkpoint.folder = row.text(6);
  checkpoint.files = row.text(7);
  checkpoint.sacrebleu = row.real(8);
  checkpoint.loss = row.real(9);
  checkpoint.best = row.integer(10) != 0;
  checkpoint.removed = row.integer(11) != 0;
  checkpoint.write_seconds = row.real(12);
  return checkpoint;
}

}  // namespace

std::vector<std::pair<std::int64_t, EvalRow>> list_evals(Reader& reader, std::int64_t run, std::int64_t after,
                                                         std::int64_t limit) {
  Statement rows = reader.database.prepare(
      "SELECT eval, evals.id, runs.id, step, time_ms, sample_count, body FROM evals JOIN runs USING (run) "
      "WHERE evals.run = ? AND eval > ? ORDER BY eval LIMIT ?");
  rows.bind(run, after, limit);
  std::vector<std::pair<std::int64_t, EvalRow>> evals;
  while (rows.step()) {
    evals.emplace_back(
        rows.integer(0),
        EvalRow{rows.text(1), rows.text(2), rows.integer(3), rows.integer(4), rows.integer(5), rows.text(6), {}});
  }
  return evals;
}

std::optional<EvalRow> find_eval(Reader& reader, std::string_view id) {
  Statement row = reader.database.prepare(
      "SELECT evals.id, runs.id, step, time_ms, sample_count, body, samples FROM evals JOIN runs USING (run) "
      "WHERE evals.id = ?");
  row.bind(id);
  if (!row.step()) return std::nullopt;
  return EvalRow{row.text(0), row.text(1), row.integer(2), row.integer(3), row.integer(4), row.text(5), row.text(6)};
}

std::vector<CheckpointRow> list_checkpoints(Reader& reader, std::int64_t run, bool removed,
                                            std::pair<std::int64_t, std::int64_t> before, std::int64_t limit) {
  Statement rows = reader.database.prepare(
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds FROM checkpoints c JOIN runs USING (run) WHERE c.run = ?1 AND (?2 OR NOT removed) AND "
      "(?3 = 0 OR (step, checkpoint) < (?3, ?4)) ORDER BY step DESC, checkpoint DESC LIMIT ?5");
  rows.bind(run, removed, before.first, before.second, limit);
  std::vector<CheckpointRow> checkpoints;
  while (rows.step()) checkpoints.push_back(checkpoint_of(rows));
  return checkpoints;
}

std::optional<CheckpointRow> find_checkpoint(Reader& reader, std::string_view id) {
  Statement row = reader.database.prepare(
      "SELECT checkpoint, c.id, runs.id, c.name, step, c.created_ms, folder, files, sacrebleu, loss, best, removed, "
      "write_seconds FROM checkpoints c JOIN runs USING (run) WHERE c.id = ?");
  row.bind(id);
  if (!row.step()) return std::nullopt;
  return checkpoint_of(row);
}

std::vector<LogRow> list_logs(Reader& reader, std::int64_t run, const LogFilter& filter) {
  // Two constant texts instead of an order built from the request.
  constexpr std::string_view forward =
      "SELECT log, attempt, rank, time_ms, level, text FROM logs WHERE run = ?1 AND log > ?2 AND (?3 < 0 OR rank = ?3) "
      "AND (?4 = '' OR level = ?4) AND (?5 = '' OR instr(text, ?5) > 0) ORDER BY log LIMIT ?6";
  constexpr std::string_view backward =
      "SELECT log, attempt, rank, time_ms, level, text FROM logs WHERE run = ?1 AND log > ?2 AND (?3 < 0 OR rank = ?3) "
      "AND (?4 = '' OR level = ?4) AND (?5 = '' OR instr(text, ?5) > 0) ORDER BY log DESC LIMIT ?6";
  Statement rows = reader.database.prepare(filter.tail ? backward : forward);
  rows.bind(run, filter.after, filter.rank.value_or(-1), filter.level, filter.text, filter.limit);
  std::vector<LogRow> logs;
  while (rows.step()) {
    logs.push_back({rows.integer(0), rows.integer(1), rows.integer(2), rows.integer(3), rows.text(4), rows.text(5)});
  }
  if (filter.tail) std::reverse(logs.begin(), logs.end());
  return logs;
}

}  // namespace babelring::store
