#include "server/store/evals.h"

#include "base/json.h"
#include "server/store/runs.h"

namespace babelring::store {

template <same_row<EvalRow> Row, class Column>
void visit_columns(Row& eval, Column&& column) {
  column("evals.id", eval.id);
  column("runs.id", eval.run);
  column("step", eval.step);
  column("time_ms", eval.time_ms);
  column("sample_count", eval.sample_count);
  column("body", eval.body);
}

std::string insert_eval(Database& database, std::int64_t run, const Record& record, bool may_be_best) {
  const auto& eval = std::get<EvalRecord>(record.body);
  json::array samples;
  for (const EvalSample& sample : eval.samples) {
    samples.push_back({{"source", sample.source}, {"reference", sample.reference}, {"hypothesis", sample.hypothesis}});
  }
  json::object body = to_json(record);
  for (const char* member : {"run", "attempt", "sequence", "rank", "host", "time_ms", "kind", "samples"}) {
    body.erase(member);
  }
  const bool best = eval.best && may_be_best;
  body["best"] = best;
  std::string id = make_id('e');
  database
      .prepare(
          "INSERT INTO evals(id, run, attempt, step, time_ms, body, samples, sample_count, sacrebleu, best) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(id, run, record.header.attempt, eval.update, record.header.time_ms, to_text(body), to_text(samples),
            static_cast<std::int64_t>(eval.samples.size()), may_be_best ? eval.sacrebleu : absent, best)
      .run();
  return id;
}

std::vector<std::pair<std::int64_t, EvalRow>> list_evals(Reader& reader, std::int64_t run, std::int64_t after,
                                                         std::int64_t limit) {
  static const std::string sql = "SELECT eval, " + columns_of<EvalRow>() +
                                 " FROM evals JOIN runs USING (run) WHERE evals.run = ? AND eval > ? "
                                 "ORDER BY eval LIMIT ?";
  Statement rows = reader.database.prepare(sql);
  rows.bind(run, after, limit);
  std::vector<std::pair<std::int64_t, EvalRow>> evals;
  std::int64_t number = 0;
  EvalRow eval;
  while (rows.next(number, eval)) evals.emplace_back(number, eval);
  return evals;
}

std::optional<EvalRow> find_eval(Reader& reader, std::string_view id) {
  static const std::string sql =
      "SELECT " + columns_of<EvalRow>() + ", samples FROM evals JOIN runs USING (run) WHERE evals.id = ?";
  EvalRow eval;
  Statement row = reader.database.prepare(sql);
  if (!row.bind(id).next(eval, eval.samples)) return std::nullopt;
  return eval;
}

namespace {

/// The set that the body of an evaluation names.
std::string set_of(const std::string& body) {
  const auto parsed = parse_json(body);
  const json::value* set = parsed && parsed->is_object() ? parsed->get_object().if_contains("set") : nullptr;
  return set != nullptr && set->is_string() ? std::string(set->get_string()) : "";
}

/// The query's first evaluation on this set.
std::optional<EvalRow> first_on_set(Reader& reader, std::int64_t run, const std::string& set, std::string_view sql) {
  Statement rows = reader.database.prepare(sql);
  rows.bind(run);
  EvalRow eval;
  while (rows.next(eval.id, eval.step, eval.time_ms, eval.sample_count, eval.body)) {
    if (set_of(eval.body) == set) return eval;
  }
  return std::nullopt;
}

}  // namespace

RunEvals find_run_evals(Reader& reader, std::int64_t run, const std::string& id) {
  // The run's validation set is that of its first evaluation. Evaluations on other sets are external reports.
  const std::string set = set_of(reader.database.prepare("SELECT body FROM evals WHERE run = ? ORDER BY eval LIMIT 1")
                                     .bind(run)
                                     .value<std::string>());
  RunEvals evals{
      first_on_set(reader, run, set,
                   "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? ORDER BY eval DESC"),
      first_on_set(reader, run, set,
                   "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? "
                   "AND (sacrebleu IS NOT NULL OR json_extract(body, '$.loss') IS NOT NULL) "
                   "ORDER BY sacrebleu DESC NULLS LAST, best DESC, eval DESC")};
  for (std::optional<EvalRow>* eval : {&evals.newest, &evals.best}) {
    if (*eval) (*eval)->run = id;
  }
  return evals;
}

}  // namespace babelring::store
