#include "nmt/base/records.h"
#include "server/api/answers.h"
#include "server/api/service.h"

namespace babelring::api {
namespace {

http::Response list_evals(Service& service, const http::Request& request) {
  const std::int64_t limit = page_limit(request), after = read_cursor(request).first;
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  auto evals = store::list_evals(*reader, run.number, after, limit + 1);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(evals.size()) > limit) {
    evals.pop_back();
    next = make_cursor(evals.back().first, 0);
  }
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

}  // namespace

void add_eval_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/runs/{run}/evals", http::Scope::read,
             [&service](const http::Request& request) { return list_evals(service, request); });
  router.add("GET", "/api/v1/evals/{eval}", http::Scope::read,
             [&service](const http::Request& request) { return show_eval(service, request); });
}

}  // namespace babelring::api
