#include <array>

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/text.h"
#include "server/access/audited.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_token_name_bytes = 100, max_prefix_bytes = 100;
constexpr std::int64_t min_life_s = 1, max_life_s = std::int64_t{10} * 365 * 86'400;

json::object token_item(const store::TokenRow& token) {
  return {{"id", token.id},
          {"name", token.name},
          {"scope", token.scope},
          {"run", text_or_null(token.run)},
          {"run_prefix", text_or_null(token.run_prefix)},
          {"created_at", format_rfc3339(token.created_ms)},
          {"created_by", token.created_by},
          {"expires_at", time_or_null(token.expires_ms)},
          {"last_used_at", time_or_null(token.used_ms)}};
}

/// Reads the runs that a token is limited to. Required for scope ingest. A token of scope read may be limited to one
/// run and must end then, as a link with it is passed on. Refused for others.
void read_reach(Body& body, access::TokenService::NewToken& token) {
  token.run = body.text("run", 28).value_or("");
  token.run_prefix = body.text("run_prefix", max_prefix_bytes).value_or("");
  const bool any = body.flag("any_run").value_or(false);
  if (!token.run.empty() && !valid_id(token.run, 'r')) Body::refuse("run", "expected the id of a run");
  Body::require_name("run_prefix", token.run_prefix);
  const int given = (token.run.empty() ? 0 : 1) + (token.run_prefix.empty() ? 0 : 1) + (any ? 1 : 0);
  if (token.scope == http::Scope::read && given == 1 && !token.run.empty()) {
    if (!token.expires_ms) Body::refuse("expires_in_seconds", "a token for one run with scope read needs an end");
  } else if (token.scope != http::Scope::ingest) {
    const char* member = !token.run.empty() ? "run" : !token.run_prefix.empty() ? "run_prefix" : "any_run";
    if (given > 0)
      Body::refuse(member, "only tokens with scope ingest can be limited to runs, and with scope read to one run");
  } else if (given != 1) {
    Body::refuse("run",
                 fmt::format("a token with scope ingest needs exactly one of run (an id), run_prefix (a prefix of run "
                             "names) and any_run (true: any run that it begins), found {}",
                             given == 0 ? "none" : "several"));
  }
}

access::TokenService::NewToken read_new_token(const http::Request& request) {
  Body body(request);
  access::TokenService::NewToken token;
  token.name = body.required_text("name", max_token_name_bytes);
  Body::require_name("name", token.name);
  const auto scope = http::scope_named(body.required_text("scope", 20));
  if (!scope) Body::refuse("scope", "expected read, ingest, operate or admin");
  token.scope = *scope;
  if (const auto life = body.integer("expires_in_seconds", min_life_s, max_life_s)) {
    token.expires_ms = wall_time_ms() + *life * 1000;
  }
  read_reach(body, token);
  token.created_by = request.actor;
  body.finish();
  return token;
}

}  // namespace

http::Response create_token(Service& service, const http::Request& request) {
  const auto answer = [&] {
    access::AuditedRow row(service.audit, request, 201);
    const access::TokenService::CreatedToken created = service.tokens.create(
        read_new_token(request), {}, [&](store::Database& database, const store::TokenRow& token) {
          row.set_created("/api/v1/tokens/" + token.id);
          row.append(database);
        });
    row.committed();
    json::object item = token_item(created.row);
    item["secret"] = created.secret;
    http::Response response = json_response(item);
    response.status = 201;
    response.set("Location", "/api/v1/tokens/" + created.row.id).set("Cache-Control", "no-store");
    return response;
  };
  // The secret is returned only once, even to a repeated request: the database must not store it.
  return service.idempotency.once(request, answer, [](const std::string& body) {
    json::value item = parse_json(body).value();
    item.as_object()["secret"] = nullptr;
    return to_text(item);
  });
}

http::Response list_tokens(Service& service, const http::Request& request) {
  const auto limit = static_cast<std::size_t>(page_limit(request));
  const std::int64_t after = read_cursor(request).first;
  json::array items;
  std::optional<std::string> next;
  std::int64_t last = 0;
  for (const store::TokenRow& token : service.tokens.list()) {
    if (token.number <= after) continue;
    if (items.size() == limit) {
      next = make_cursor(last, 0);
      break;
    }
    items.push_back(token_item(token));
    last = token.number;
  }
  return page_response(request, std::move(items), std::move(next));
}

/// Returns the request's own token, so that clients can offer only what it permits.
http::Response show_own_token(Service& service, const http::Request& request) {
  if (!request.caller) {
    return json_response(json::object{
        {"id", nullptr}, {"name", "anonymous"}, {"scope", "admin"}, {"run", nullptr}, {"expires_at", nullptr}});
  }
  for (const store::TokenRow& token : service.tokens.list()) {
    if (token.id != request.caller->token) continue;
    return json_response(json::object{{"id", token.id},
                                      {"name", token.name},
                                      {"scope", token.scope},
                                      {"run", text_or_null(token.run)},
                                      {"expires_at", time_or_null(token.expires_ms)}});
  }
  throw http::Problem(401, "token_invalid", "the token has been revoked");
}

http::Response delete_token(Service& service, const http::Request& request) {
  const std::string& id = request.parameter("token");
  access::AuditedRow row(service.audit, request, 204);
  const auto append = [&](store::Database& database, const store::TokenRow&) { row.append(database); };
  if (!valid_id(id, 't') || !service.tokens.remove(id, append)) {
    throw http::Problem(404, "token_unknown", fmt::format("no token '{}'", id));
  }
  row.committed();
  http::Response response;
  response.status = 204;
  return response;
}

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
