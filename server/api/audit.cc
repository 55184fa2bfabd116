#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "base/parse_number.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"

namespace babelring::api {
namespace {

constexpr std::int64_t audit_rows_per_chunk = 1000;

json::object audit_item(const store::AuditRow& row) {
  return {{"time", format_rfc3339(row.time_ms)},
          {"last_time", format_rfc3339(row.last_ms)},
          {"count", row.count},
          {"actor", row.actor},
          {"token", text_or_null(row.token)},
          {"method", row.method},
          {"route", row.route},
          {"object", row.object},
          {"status", row.status},
          {"request", row.request},
          {"address", row.address}};
}

/// Parses `403`, or `4xx` for 400 to 499.
void take_status(const http::Request& request, store::AuditFilter& filter) {
  const auto text = request.query_value("status");
  if (!text) return;
  const bool digit = text->size() == 3 && text->front() >= '1' && text->front() <= '5';
  if (digit && text->substr(1) == "xx") {
    filter.lowest_status = (text->front() - '0') * 100;
    filter.highest_status = filter.lowest_status + 99;
    return;
  }
  const auto status = digit ? parse_number<std::int64_t>(*text) : std::nullopt;
  if (!status) {
    throw http::Problem(400, "bad_parameter",
                        fmt::format("status: expected a status such as 403, or 4xx for a class, found '{}'",
                                    printable(std::string_view(*text).substr(0, 100))));
  }
  filter.lowest_status = filter.highest_status = static_cast<int>(*status);
}

store::AuditFilter audit_filter(const http::Request& request) {
  store::AuditFilter filter;
  filter.actor = request.query_value("actor").value_or("");
  filter.token = request.query_value("token").value_or("");
  filter.route = request.query_value("route").value_or("");
  filter.object = request.query_value("object").value_or("");
  while (filter.object.ends_with('/')) filter.object.pop_back();
  take_status(request, filter);
  filter.from_ms = time_query(request, "from").value_or(filter.from_ms);
  filter.to_ms = time_query(request, "to").value_or(filter.to_ms);
  return filter;
}

/// Streams the entries as JSON lines, oldest first, in batches: holds no database connection while the client reads.
class AuditExport : public http::BodyStream {
 public:
  AuditExport(Service& service, store::AuditFilter filter) : service_(service), filter_(std::move(filter)) {
    filter_.oldest_first = true;
    filter_.limit = audit_rows_per_chunk;
  }

  std::string next() override {
    auto rows = store::list_audit(*service_.store.reader(), filter_);
    if (rows.empty()) return "";
    filter_.after = rows.back().number;
    service_.audit.complete(rows);
    std::string lines;
    for (const store::AuditRow& row : rows) lines += to_text(audit_item(row)) + '\n';
    return lines;
  }

 private:
  Service& service_;
  store::AuditFilter filter_;
};

}  // namespace

http::Response list_audit(Service& service, const http::Request& request) {
  store::AuditFilter filter = audit_filter(request);
  if (const std::int64_t before = read_cursor(request).first; before > 0) filter.before = before;
  const std::int64_t limit = page_limit(request);
  filter.limit = limit + 1;  // one more shows whether there is a next page
  auto reader = service.store.reader();
  auto rows = store::list_audit(*reader, filter);
  auto next = end_page(rows, limit, [](const store::AuditRow& last) { return make_cursor(last.number, 0); });
  service.audit.complete(rows);
  json::array items;
  for (const store::AuditRow& row : rows) items.push_back(audit_item(row));
  return page_response(request, std::move(items), std::move(next));
}

http::Response export_audit(Service& service, const http::Request& request) {
  http::Response response;
  response.set("Content-Type", "application/x-ndjson").set("Cache-Control", "no-store");
  response.set("Content-Disposition", "attachment; filename=\"audit.jsonl\"");
  response.body = std::make_shared<AuditExport>(service, audit_filter(request));
  return response;
}

}  // namespace babelring::api
