#include "insight/verdict/verdict.h"

#include "server/api/control.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/verdict/verdict_input.h"

namespace babelring::api {
http::Response show_verdict(Service& service, const http::Request& request) {
  auto reader = query_reader(service, request);
  const store::RunRow run = require_run(*reader, request);
  verdict::Input input = verdict::read_input(*reader, run);
  if (run.state == store::RunState::running && service.control != nullptr) {
    input.hosts = verdict::host_loads(run, &service.control->heartbeats());
  }
  const verdict::Verdict verdict = verdict::judge(input);
  json::array evidence;
  for (const auto& [key, value, unit, share] : verdict.evidence) {
    evidence.push_back({{"key", key}, {"value", value}, {"unit", unit}, {"share", share}});
  }
  const bool seen = verdict.last_update > 0;
  const json::object window = {{"first_update", verdict.first_update}, {"last_update", verdict.last_update}};
  return json_response(json::object{{"verdict", verdict::to_string(verdict.kind)},
                                    {"level", verdict::to_string(verdict.level)},
                                    {"sentence", verdict.sentence},
                                    {"advice", verdict.advice},
                                    {"confidence", verdict.confidence},
                                    {"window", seen ? json::value(window) : json::value(nullptr)},
                                    {"evidence", std::move(evidence)}});
}

}  // namespace babelring::api
