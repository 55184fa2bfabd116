#include "server/store/evals.h"
#include "base/names.h"

#include "base/clock.h"
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

EvalSample read_sample(const json::value& value, std::size_t index) {
  Body body(value, fmt::format("samples/{}/", index));
  EvalSample sample;
  sample.source = body.text("source", max_sample_bytes).value_or("");
  sample.reference = body.text("reference", max_sample_bytes).value_or("");
  sample.hypothesis = body.text("hypothesis", max_sample_bytes).value_or("");
  body.finish();
  return sample;
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
  body.finish();
  return eval;
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
  return json_response(eval_item(*eval));
}

/// Adds a validation made outside the training run, for example on another set.
http::Response add_eval(Service& service, const http::Request& request) {
  return service.idempotency.once(request, [&] {
    const store::RunRow run = [&] {
      auto reader = service.store.reader();
      store::RunRow found = require_run(*reader, request);
      const auto known = store::find_commands(reader->database, found.id, found.attempt);
      const auto refusal = known ? store::refuse_reporter(reporter_of(request), found.id, *known) : std::nullopt;
      if (refusal) throw problem_of(refusal->kind, refusal->detail);
      return found;
    }();
    Record record;
    record.header.run = run.id;
    record.header.attempt = run.attempt;
    record.header.time_ms = wall_time_ms();
    record.body = read_eval(request);
    access::AuditedRow row(service.audit, request, 201);
    const std::string id = access::write(service.store, [&](store::Database& database) {
      std::string made = store::insert_eval(database, run.number, record);
      row.set_created("/api/v1/evals/" + made);
      row.append(database);
      return made;
    });
    row.committed();
    auto reader = service.store.reader();
    store::EvalRow eval = store::find_eval(*reader, id).value();
    http::Response response = json_response(eval_item(eval));
    response.status = 201;
    eval.samples.clear();
    service.events.publish(run.id, "eval", to_text(eval_item(eval)));
    return std::move(response.set("Location", "/api/v1/evals/" + id));
  });
}

}  // namespace babelring::api
