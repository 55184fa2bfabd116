#include "server/store/runs.h"

namespace babelring::store {
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

}  // namespace babelring::store
