#include "server/store/evals.h"

#include "base/json.h"
#include "server/store/rows.h"

namespace babelring::store {

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

}  // namespace babelring::store
