#include "server/store/evals.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/names.h"
#include "base/records/records.h"
#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/records.h"
#include "server/api/responses.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_samples = 200, max_sample_bytes = 4096, max_set_bytes = 128, max_signature_bytes = 256;
constexpr std::size_t max_compared = 20;  // runs with a baseline

EvalSample read_sample(const json::value& value, std::size_t index) {
  Body body(value, fmt::format("samples/{}/", index));
  EvalSample sample;
  sample.source = body.text("source", max_sample_bytes).value_or("");
  sample.reference = body.text("reference", max_sample_bytes).value_or("");
  sample.hypothesis = body.text("hypothesis", max_sample_bytes).value_or("");
  body.finish();
  return sample;
}

/// The scores of resamples by one metric, as a record has them.
Resamples read_resamples(const json::value& value, std::size_t index) {
  constexpr std::size_t max_digest_bytes = 64, max_metric_bytes = 32;
  Body body(value, fmt::format("resamples/{}/", index));
  Resamples resamples;
  resamples.metric = body.required_text("metric", max_metric_bytes);
  resamples.signature = body.required_text("signature", max_signature_bytes);
  resamples.references = body.required_text("references", max_digest_bytes);
  resamples.statistics = body.required_text("statistics", max_digest_bytes);
  const auto score = body.number("score", 0, 100);
  if (!score) Body::refuse("score", "expected, but absent");
  resamples.score = *score;
  const json::value* scores = body.value("scores");
  const bool fits = scores != nullptr && scores->is_array() && !scores->get_array().empty() &&
                    scores->get_array().size() <= max_resamples &&
                    std::ranges::all_of(scores->get_array(), [](const json::value& one) { return one.is_number(); });
  if (!fits) Body::refuse("scores", fmt::format("expected an array of 1 to {} numbers", max_resamples));
  for (const json::value& one : scores->get_array()) resamples.scores.push_back(one.to_number<double>());
  body.finish();
  return resamples;
}

EvalRecord read_eval(const http::Request& request) {
  Body body(request);
  const auto number = [&](const char* name, double max) { return body.number(name, 0, max).value_or(store::absent); };
  EvalRecord eval;
  const auto update = body.integer("update", 0, max_number);
  if (!update) Body::refuse("update", "expected, but absent");
  eval.update = *update;
  eval.set = body.required_text("set", max_set_bytes);
  Body::require_name("set", eval.set);
  eval.loss = number("loss", 1e6);
  eval.nll = number("nll", 1e6);
  if (const auto entropy = body.number("entropy", 0, 1e6)) eval.entropy = *entropy;
  eval.accuracy = number("accuracy", 1);
  eval.sacrebleu = number("sacrebleu", 100);
  eval.chrf = number("chrf", 100);
  eval.teacher_forced_bleu = number("teacher_forced_bleu", 100);
  eval.signature = body.text("signature", max_signature_bytes).value_or("");
  if (const json::value* samples = body.value("samples")) {
    if (!samples->is_array() || samples->get_array().size() > max_samples) {
      Body::refuse("samples", fmt::format("expected an array of at most {}", max_samples));
    }
    for (const json::value& sample : samples->get_array()) {
      eval.samples.push_back(read_sample(sample, eval.samples.size()));
    }
  }
  if (const json::value* resamples = body.value("resamples")) {
    if (!resamples->is_array() || resamples->get_array().size() > max_resampled_metrics) {
      Body::refuse("resamples", fmt::format("expected an array of at most {}", max_resampled_metrics));
    }
    for (const json::value& one : resamples->get_array()) {
      eval.resamples.push_back(read_resamples(one, eval.resamples.size()));
    }
  }
  body.finish();
  return eval;
}

/// Says in an added evaluation how much better it is by BLEU than the run's best validation, if the texts are the same.
void compare_with_best(store::Reader& reader, const store::RunRow& run, EvalRecord& eval) {
  const auto by_bleu = [](const Resamples& one) { return one.metric == "BLEU"; };
  const auto own = std::ranges::find_if(eval.resamples, by_bleu);
  if (own == eval.resamples.end()) return;
  for (const store::BestResamples& best : store::best_resamples(reader, run.number)) {
    if (!by_bleu(best.resamples)) continue;
    const auto difference = compare(*own, best.resamples);
    if (!difference) continue;
    eval.best_before = best.step;
    eval.above_best = *difference;
  }
}

/// Whether an added evaluation becomes the best one of a run that does not validate itself, see find_run_evals().
bool becomes_best(const store::RunRow& run, const EvalRecord& eval) {
  if (!run.best_eval) return true;
  const json::object best = eval_item(*run.best_eval);
  if (get_flag(best, "best") || get_text(best, "set") != eval.set) return false;
  const auto bleu = get_number(best, "sacrebleu");
  return !bleu || eval.sacrebleu > *bleu || get_text(best, "signature") != eval.signature;
}

}  // namespace

http::Response list_evals(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request), after = read_cursor(request).first;
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  auto evals = store::list_evals(*reader, run.number, after, limit + 1);
  auto next = end_page(evals, limit, [](const auto& last) { return make_cursor(last.first, 0); });
  json::array items;
  for (const auto& [number, eval] : evals) items.push_back(eval_item(eval));
  return page_response(request, std::move(items), std::move(next));
}

http::Response show_eval(Service& service, const http::Request& request) {
  const std::string& id = request.parameter("eval");
  auto reader = service.store.reader();
  const auto eval = valid_id(id, 'e') ? store::find_eval(*reader, id) : std::nullopt;
  if (!eval) throw http::Problem(404, "eval_unknown", fmt::format("no eval '{}'", id));
  require_reach(request, eval->run);
  return json_response(eval_item(*eval));
}

namespace {

/// The best validation of a run, with what it is compared by.
struct ComparedRun {
  std::string id, name;
  bool translated = false;  // with BLEU
  std::vector<store::BestResamples> best;

  const store::BestResamples* by(const std::string& metric) const {
    const auto found = std::find_if(best.begin(), best.end(),
                                    [&](const store::BestResamples& one) { return one.resamples.metric == metric; });
    return found == best.end() ? nullptr : &*found;
  }
};

ComparedRun compared_run(store::Reader& reader, const std::string& id) {
  const store::RunRow run = require_run(reader, id);
  ComparedRun compared{.id = run.id, .name = run.name.empty() ? run.id : run.name, .best = {}};
  if (run.best_eval) compared.translated = get_number(eval_item(*run.best_eval), "sacrebleu").has_value();
  compared.best = store::best_resamples(reader, run.number);
  return compared;
}

/// Says in words and numbers how much better `run` is than `baseline`.
json::object comparison_item(const ComparedRun& run, const ComparedRun& baseline, const std::string& metric) {
  const store::BestResamples *own = run.by(metric), *base = baseline.by(metric);
  const auto side = [](const store::BestResamples* of_run) -> json::value {
    if (of_run == nullptr) return nullptr;
    return json::object{{"update", of_run->step}, {"score", of_run->resamples.score}};
  };
  Result<ScoreDifference> compared =
      own != nullptr && base != nullptr
          ? compare(own->resamples, base->resamples)
          : Error{fmt::format("{} has no resamples of its best validation", own == nullptr ? run.name : baseline.name)};
  const bool equal = compared && compared->p_value == p_of_equals;
  const bool tested = compared && !equal && std::isfinite(compared->p_value);
  return {
      {"run", run.id},
      {"metric", metric},
      {"best", side(own)},
      {"baseline", side(base)},
      {"difference", compared ? json::value(compared->difference) : json::value(nullptr)},
      {"p_value", tested ? json::value(compared->p_value) : json::value(nullptr)},
      {"equal", equal},
      {"comparable", compared.ok()},
      {"text", compared ? difference_text(*compared, metric, baseline.name) : "not comparable: " + compared.error()}};
}

}  // namespace

/// Compares the best validations of runs with that of the run in the path. Runs that do not translate have no items.
http::Response compare_runs(Service& service, const http::Request& request) {
  const std::vector<std::string> others = list_query(request, "with");
  if (others.empty() || others.size() > max_compared) {
    throw http::Problem(400, "bad_parameter",
                        fmt::format("with: expected 1 to {} ids of runs, found {}", max_compared, others.size()));
  }
  auto reader = service.store.reader();
  for (const std::string& id : others) require_reach(request, id);
  const ComparedRun baseline = compared_run(*reader, request.parameter("run"));
  json::array items;
  for (const std::string& id : others) {
    const ComparedRun run = compared_run(*reader, id);
    std::vector<std::string> metrics;
    metrics.reserve(run.best.size());
    for (const auto& [step, resamples] : run.best) metrics.push_back(resamples.metric);
    if (metrics.empty() && run.translated) metrics.emplace_back("BLEU");
    if (!baseline.translated) metrics.clear();
    for (const std::string& metric : metrics) items.push_back(comparison_item(run, baseline, metric));
  }
  return json_response(json::object{{"items", std::move(items)}});
}

/// Adds a validation made outside the training run, for example on another set.
http::Response add_eval(Service& service, const http::Request& request) {
  return service.idempotency.once(request, [&] {
    EvalRecord eval = read_eval(request);
    bool best = false;
    const store::RunRow run = [&] {
      auto reader = service.store.reader();
      store::RunRow found = require_run(*reader, request);
      const auto known = store::find_commands(reader->database, found.id, found.attempt);
      const auto refusal = known ? store::refuse_reporter(reporter_of(request), found.id, *known) : std::nullopt;
      if (refusal) throw problem_of(refusal->kind, refusal->detail);
      compare_with_best(*reader, found, eval);
      best = !eval.resamples.empty() && becomes_best(found, eval);
      return found;
    }();
    Record record;
    record.header.run = run.id;
    record.header.attempt = run.attempt;
    record.header.time_ms = wall_time_ms();
    record.body = std::move(eval);
    access::AuditedRow row(service.audit, request, 201);
    const std::string id = access::write(service.store, [&](store::Database& database) {
      std::string made = store::insert_eval(database, run.number, record);
      if (best) store::replace_resamples(database, run.number, std::get<EvalRecord>(record.body));
      row.set_created("/api/v1/evals/" + made);
      row.append(database);
      return made;
    });
    row.committed();
    auto reader = service.store.reader();
    store::EvalRow stored = store::find_eval(*reader, id).value();
    http::Response response = json_response(eval_item(stored));
    response.status = 201;
    stored.samples.clear();
    service.events.publish(run.id, "eval", to_text(eval_item(stored)));
    return std::move(response.set("Location", "/api/v1/evals/" + id));
  });
}

}  // namespace babelring::api
