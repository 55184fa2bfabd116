#include "nmt/base/clock.h"
#include "server/api/answers.h"
#include "server/api/service.h"

namespace babelring::api {
namespace {

json::object audit_item(const store::AuditRow& row) {
  return {{"time", format_rfc3339(row.time_ms)},
          {"actor", row.actor},
          {"token", row.token.empty() ? json::value(nullptr) : json::value(row.token)},
          {"method", row.method},
          {"route", row.route},
          {"object", row.object},
          {"status", row.status},
          {"request", row.request},
          {"address", row.address}};
}

http::Response list_audit(Service& service, const http::Request& request) {
  store::AuditFilter filter;
  filter.actor = request.query_value("actor").value_or("");
  filter.before = read_cursor(request).first;
  const std::int64_t limit = page_limit(request);
  filter.limit = limit + 1;  // one more tells whether there is a next page
  auto reader = service.store.reader();
  auto rows = store::list_audit(*reader, filter);
  std::optional<std::string> next;
  if (static_cast<std::int64_t>(rows.size()) > limit) {
    rows.pop_back();
    next = make_cursor(rows.back().number, 0);
  }
  json::array items;
  for (const store::AuditRow& row : rows) items.push_back(audit_item(row));
  return page_response(request, std::move(items), std::move(next));
}

}  // namespace

void add_audit_routes(http::Router& router, Service& service) {
  router.add("GET", "/api/v1/audit", http::Scope::admin,
             [&service](const http::Request& request) { return list_audit(service, request); });
}

}  // namespace babelring::api
