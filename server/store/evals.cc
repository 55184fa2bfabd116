#include "server/store/evals.h"

#include "nmt/base/json.h"

namespace babelring::store {

std::string insert_eval(Database& database, std::int64_t run, const Record& record) {
  const auto& eval = std::get<EvalRecord>(record.body);
  json::array samples;
  for (const EvalSample& sample : eval.samples) {
    samples.push_back({{"source", sample.source}, {"reference", sample.reference}, {"hypothesis", sample.hypothesis}});
  }
  json::object body = to_json(record);
  for (const char* member : {"run", "attempt", "sequence", "rank", "host", "time_ms", "kind", "samples"}) {
    body.erase(member);
  }
  std::string id = make_id('e');
  database
      .prepare(
          "INSERT INTO evals(id, run, attempt, step, time_ms, body, samples, sample_count, sacrebleu, best) "
          "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(id, run, record.header.attempt, eval.update, record.header.time_ms, to_text(body), to_text(samples),
            static_cast<std::int64_t>(eval.samples.size()), eval.sacrebleu, eval.best)
      .run();
  return id;
}

}  // namespace babelring::store
