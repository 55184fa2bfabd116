#include "server/store/evals.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "base/json.h"
#include "base/names.h"
#include "server/store/metrics.h"

namespace babelring::store {

template <const_or_not<EvalRow> Row, class Column>
void visit_columns(Row& eval, Column&& column) {
  column("evals.id", eval.id);
  column("runs.id", eval.run);
  column("step", eval.step);
  column("time_ms", eval.time_ms);
  column("sample_count", eval.sample_count);
  column("body", eval.body);
}

void replace_resamples(Database& database, std::int64_t run, const EvalRecord& eval) {
  database.prepare("DELETE FROM resamples WHERE run = ?").bind(run).run();
  for (const Resamples& by : eval.resamples) {
    const std::string_view scores(reinterpret_cast<const char*>(by.scores.data()), by.scores.size() * sizeof(double));
    database
        .prepare(
            "INSERT OR REPLACE INTO resamples(run, metric, step, signature, reference_digest, statistics_digest, "
            "score, scores) VALUES (?, ?, ?, ?, ?, ?, ?, ?)")
        .bind(run, by.metric, eval.update, by.signature, by.references, by.statistics, by.score, Blob{scores})
        .run();
  }
}

std::string insert_eval(Database& database, std::int64_t run, const Record& record, bool may_be_best) {
  const auto& eval = std::get<EvalRecord>(record.body);
  json::array samples;
  for (const EvalSample& sample : eval.samples) {
    samples.push_back({{"source", sample.source}, {"reference", sample.reference}, {"hypothesis", sample.hypothesis}});
  }
  json::object body = to_json(record);
  for (const char* member : {"run", "attempt", "sequence", "rank", "host", "time_ms", "kind", "samples", "resamples"}) {
    body.erase(member);
  }
  const bool best = eval.best && may_be_best;
  body["best"] = best;
  if (best) replace_resamples(database, run, eval);
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

/// A text member of an evaluation's body; empty if it has none.
std::string text_in(const std::string& body, std::string_view member) {
  const auto parsed = parse_json(body);
  const json::value* text = parsed && parsed->is_object() ? parsed->get_object().if_contains(member) : nullptr;
  return text != nullptr && text->is_string() ? std::string(text->get_string()) : "";
}

/// The query's first evaluation on this set. If `like` is given: the first whose signature and scoring are its own or
/// missing.
std::optional<EvalRow> first_on_set(Reader& reader, std::int64_t run, const std::string& set, std::string_view sql,
                                    const std::optional<EvalRow>& like = std::nullopt) {
  Statement rows = reader.database.prepare(sql);
  rows.bind(run);
  EvalRow eval;
  while (rows.next(eval.id, eval.step, eval.time_ms, eval.sample_count, eval.body)) {
    if (text_in(eval.body, "set") != set) continue;
    const auto agrees = [&](std::string_view member) {
      const std::string wanted = text_in(like->body, member), own = text_in(eval.body, member);
      return wanted.empty() || own.empty() || own == wanted;
    };
    if (!like || (agrees("signature") && agrees("scoring"))) return eval;
  }
  return std::nullopt;
}

/// The run's best evaluation on this set: that which its worker has marked last, since it compares only scores that
/// mean the same. Without marks, of a run that does not validate itself, the one with the highest BLEU among those that
/// are measured like the newest, else with the lowest loss.
std::optional<EvalRow> best_on_set(Reader& reader, std::int64_t run, const std::string& set) {
  std::optional<EvalRow> marked =
      first_on_set(reader, run, set,
                   "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? AND best ORDER BY eval DESC");
  if (marked) return marked;
  const auto newest = first_on_set(reader, run, set,
                                   "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? AND "
                                   "sacrebleu IS NOT NULL ORDER BY eval DESC");
  return first_on_set(reader, run, set,
                      "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? "
                      "AND (sacrebleu IS NOT NULL OR json_extract(body, '$.loss') IS NOT NULL) "
                      "ORDER BY sacrebleu DESC NULLS LAST, json_extract(body, '$.loss') NULLS LAST, eval DESC",
                      newest);
}

/// The run's validation set is that of its first evaluation. Others are scored beside it, or reported by `nmt
/// evaluate`.
std::string validation_set_of(Reader& reader, std::int64_t run) {
  return text_in(reader.database.prepare("SELECT body FROM evals WHERE run = ? ORDER BY eval LIMIT 1")
                     .bind(run)
                     .value<std::string>(),
                 "set");
}

}  // namespace

RunEvals find_run_evals(Reader& reader, std::int64_t run, const std::string& id) {
  const std::string set = validation_set_of(reader, run);
  RunEvals evals{
      first_on_set(reader, run, set,
                   "SELECT id, step, time_ms, sample_count, body FROM evals WHERE run = ? ORDER BY eval DESC"),
      best_on_set(reader, run, set)};
  for (std::optional<EvalRow>* eval : {&evals.newest, &evals.best}) {
    if (*eval) (*eval)->run = id;
  }
  return evals;
}

std::vector<BestResamples> best_resamples(Reader& reader, std::int64_t run) {
  Statement rows = reader.database.prepare(
      "SELECT step, metric, signature, reference_digest, statistics_digest, score, scores FROM resamples WHERE run = ? "
      "ORDER BY resample");
  rows.bind(run);
  std::vector<BestResamples> best;
  BestResamples one;
  Resamples& by = one.resamples;
  std::string scores;
  while (rows.next(one.step, by.metric, by.signature, by.references, by.statistics, by.score, scores)) {
    by.scores.resize(scores.size() / sizeof(double));
    std::memcpy(by.scores.data(), scores.data(), by.scores.size() * sizeof(double));
    best.push_back(one);
  }
  return best;
}

std::vector<PauseRow> recent_pauses(Reader& reader, std::int64_t run, std::int64_t first, std::int64_t last,
                                    std::int64_t limit) {
  Statement rows = reader.database.prepare(
      "SELECT * FROM (SELECT 0, step, json_extract(body, '$.seconds') FROM evals WHERE run = ?1 AND step >= ?2 AND "
      "step <= ?3 AND json_extract(body, '$.seconds') > 0 ORDER BY eval DESC LIMIT ?4) UNION ALL "
      "SELECT * FROM (SELECT 1, step, write_seconds FROM checkpoints WHERE run = ?1 AND step >= ?2 AND step <= ?3 "
      "ORDER BY step DESC, checkpoint DESC LIMIT ?4)");
  rows.bind(run, first, last, limit);
  std::vector<PauseRow> pauses;
  PauseRow pause;
  while (rows.next(pause.checkpoint, pause.step, pause.seconds)) {
    if (!(pause.seconds > 0)) pause.seconds = 0;
    pauses.push_back(pause);
  }
  std::stable_sort(pauses.begin(), pauses.end(), [](const PauseRow& a, const PauseRow& b) { return a.step < b.step; });
  return pauses;
}

namespace {

/// How an evaluation was measured: EvalRecord::set_digest and scoring.
struct Measured {
  std::string set_digest, scoring;
};

bool same_or_unknown(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || a == b;
}

}  // namespace

ComparableScores comparable_scores(Reader& reader, std::int64_t run) {
  const std::string set = validation_set_of(reader, run);  // bound, not copied
  Statement rows = reader.database.prepare(
      "SELECT step, coalesce(json_extract(body, '$.set_digest'), ''), coalesce(json_extract(body, '$.scoring'), '') "
      "FROM evals WHERE run = ? AND json_extract(body, '$.scoring') IS NOT NULL AND json_extract(body, '$.set') = ? "
      "ORDER BY eval DESC");
  rows.bind(run, set);
  ComparableScores scores;
  std::optional<Measured> newest;
  Measured own;
  std::int64_t step = 0;
  std::set<std::int64_t> seen;
  while (rows.next(step, own.set_digest, own.scoring)) {
    if (!newest) newest = own;
    if (!seen.insert(step).second) continue;  // evaluated again later
    if (!same_or_unknown(own.set_digest, newest->set_digest)) scores.other_loss.insert(step);
    if (!same_or_unknown(own.scoring, newest->scoring)) scores.other_bleu.insert(step);
  }
  return scores;
}

std::vector<ValidationRow> recent_validations(Reader& reader, std::int64_t run, std::string_view valid_set,
                                              std::size_t limit) {
  constexpr int rows_read = 100;  // includes evaluations on other sets
  Statement rows = reader.database.prepare(
      "SELECT step, json_extract(body, '$.set'), json_extract(body, '$.loss'), sacrebleu, "
      "coalesce(json_extract(body, '$.set_digest'), ''), coalesce(json_extract(body, '$.scoring'), '') "
      "FROM evals WHERE run = ? AND json_extract(body, '$.loss_unknown') IS NULL ORDER BY eval DESC LIMIT ?");
  rows.bind(run, rows_read);
  std::map<std::string, std::vector<ValidationRow>, std::less<>> by_set;  // newest first
  std::map<std::string, Measured, std::less<>> measured;                  // the newest of each set
  std::string newest_set;
  ValidationRow validation;
  std::string set;
  Measured own;
  while (rows.next(validation.step, set, validation.loss, validation.sacrebleu, own.set_digest, own.scoring)) {
    if (by_set.empty()) newest_set = set;
    auto& of_set = by_set[set];
    const Measured& newest = measured.try_emplace(set, own).first->second;
    if (!same_or_unknown(own.set_digest, newest.set_digest)) continue;
    if (!same_or_unknown(own.scoring, newest.scoring)) validation.sacrebleu = absent;
    const bool outdated = !of_set.empty() && validation.step >= of_set.back().step;
    if (of_set.size() < limit && !outdated) of_set.push_back(validation);
  }
  const auto chosen = by_set.find(valid_set);
  std::vector<ValidationRow> found = chosen != by_set.end() ? chosen->second : by_set[newest_set];
  std::reverse(found.begin(), found.end());
  return found;
}

}  // namespace babelring::store
