#include "base/check_name.h"
#include "base/clock.h"
#include "base/records/records.h"
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

/// Reads the runs that a token is limited to. Required for scope ingest, refused for others.
void read_reach(Body& body, access::TokenService::NewToken& token) {
  token.run = body.text("run", 28).value_or("");
  token.run_prefix = body.text("run_prefix", max_prefix_bytes).value_or("");
  const bool any = body.flag("any_run").value_or(false);
  if (!token.run.empty() && !valid_id(token.run, 'r')) Body::refuse("run", "expected the id of a run");
  Body::require_name("run_prefix", token.run_prefix);
  const int given = (token.run.empty() ? 0 : 1) + (token.run_prefix.empty() ? 0 : 1) + (any ? 1 : 0);
  if (token.scope != http::Scope::ingest) {
    const char* member = !token.run.empty() ? "run" : !token.run_prefix.empty() ? "run_prefix" : "any_run";
    if (given > 0) Body::refuse(member, "only tokens with scope ingest can be limited to runs");
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
  read_reach(body, token);
  if (const auto life = body.integer("expires_in_seconds", min_life_s, max_life_s)) {
    token.expires_ms = wall_time_ms() + *life * 1000;
  }
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

}  // namespace babelring::api
