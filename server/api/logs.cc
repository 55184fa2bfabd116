#include "nmt/base/clock.h"
#include "nmt/base/log.h"
#include "server/api/answers.h"
#include "server/api/service.h"

namespace babelring::api {
namespace {

std::string as_text(const std::vector<store::LogRow>& logs) {
  std::string text;
  for (const store::LogRow& log : logs) {
    text += fmt::format("{} [rank {}] {}: {}\n", format_rfc3339(log.time_ms), log.rank, log.level, printable(log.text));
  }
  return text;
}

http::Response list(Service& service, const http::Request& request) {
  store::LogFilter filter;
  filter.rank = integer_query(request, "rank", 0, 1'000'000);
  filter.level = request.query_value("level").value_or("");
  filter.text = request.query_value("q").value_or("");
  filter.after = read_cursor(request).first;
  // Without a position the newest lines are wanted; with one, those that follow it.
  filter.tail = !request.query_value("cursor");
  filter.limit = filter.tail ? integer_query(request, "tail", 1, 500, 200) : page_limit(request);
  auto reader = service.store.reader();
  const store::RunRow run = require_run(*reader, request);
  const auto logs = store::list_logs(*reader, run.number, filter);
  if (request.header("accept").starts_with("text/plain")) {
    return http::text_response(200, "text/plain; charset=utf-8", as_text(logs)).set("Vary", "Accept");
  }
  json::array items;
  for (const store::LogRow& log : logs) {
    items.push_back({{"rank", log.rank},
                     {"attempt", log.attempt},
                     {"time", format_rfc3339(log.time_ms)},
                     {"level", log.level},
                     {"text", log.text}});
  }
  // Logs grow: the cursor to ask again with is given even at the present end.
  const std::int64_t last = logs.empty() ? filter.after : logs.back().number;
  return page_response(request, std::move(items), make_cursor(last, 0)).set("Vary", "Accept");
}

}  // namespace

void add_log_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/runs/{run}/logs", http::Scope::read,
             [&service](const http::Request& request) { return list(service, request); });
}

}  // namespace babelring::api
