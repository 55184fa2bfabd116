#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/names.h"
#include "base/records/records.h"
#include "base/secret.h"
#include "server/access/audited.h"
#include "server/alerts/rules.h"
#include "server/api/body.h"
#include "server/api/handlers.h"
#include "server/api/responses.h"
#include "server/http/fields.h"
#include "server/store/webhooks.h"
#include "server/webhooks/digest.h"
#include "server/webhooks/message.h"
#include "server/webhooks/sender.h"

namespace babelring::api {
namespace {

constexpr std::size_t max_webhooks = 50, max_name_bytes = 100, max_url_bytes = 2000, max_choices = 100;
constexpr std::size_t max_choice_bytes = 330;  // of a label: 64 bytes of name, '=', 256 bytes of value
constexpr std::size_t min_secret_bytes = 16, max_secret_bytes = 256;

json::object delivery_item(const store::DeliveryRow& delivery) {
  const bool waits = delivery.state == "waiting";
  return {{"id", delivery.id},
          {"event", delivery.event},
          {"title", get_text(parse_json(delivery.content).value().as_object(), "title")},
          {"state", delivery.state},
          {"created_at", format_rfc3339(delivery.created_ms)},
          {"tries", delivery.tries},
          {"tried_at", time_or_null(delivery.tried_ms)},
          {"next_try_at", waits ? json::value(format_rfc3339(delivery.due_ms)) : json::value()},
          {"status", positive_or_null(delivery.status)},
          {"detail", text_or_null(delivery.detail)}};
}

json::object webhook_item(store::Reader& reader, const store::WebhookRow& webhook) {
  json::object item = {{"id", webhook.id},
                       {"name", webhook.name},
                       {"kind", webhook.kind},
                       {"url", webhook.url},
                       {"signed", !webhook.secret.empty()},
                       {"page", text_or_null(webhook.page)},
                       {"alert_kinds", parse_json(webhook.alert_kinds).value()},
                       {"runs", parse_json(webhook.runs).value()},
                       {"labels", parse_json(webhook.labels).value()},
                       {"cleared", webhook.cleared},
                       {"enabled", webhook.enabled},
                       {"digest_at", text_or_null(webhook.digest_at)},
                       {"created_at", format_rfc3339(webhook.created_ms)},
                       {"created_by", webhook.created_by},
                       {"waiting", store::count_waiting(reader.database, webhook.number)},
                       {"dropped", webhook.dropped},
                       {"last", nullptr}};
  for (const auto& delivery : store::list_deliveries(reader.database, webhook.number, 0, 1)) {
    item["last"] = delivery_item(delivery);
  }
  return item;
}

/// The state that If-Match is compared with.
std::string webhook_state(const json::object& item) {
  return state_digest(item, {"waiting", "dropped", "last"});
}

store::WebhookRow require_webhook(store::Reader& reader, const http::Request& request) {
  const std::string& id = request.parameter("webhook");
  auto found = valid_id(id, 'w') ? store::find_webhook(reader.database, id) : std::nullopt;
  if (!found) throw http::Problem(404, "webhook_unknown", fmt::format("no webhook '{}'", id));
  return std::move(*found);
}

[[noreturn]] void refuse_found(const std::string& name, const std::string& expected, std::string_view found) {
  Body::refuse(name, fmt::format("{}, found '{}'", expected, printable(found)));
}

/// Reads an array of texts into `texts`, as JSON, unless it is absent. `check` returns what it expects instead of a
/// text, or an empty string.
template <class Check>
void read_choices(Body& body, const std::string& name, std::string& texts, Check check) {
  const json::value* const value = body.value(name);
  if (value == nullptr) return;
  if (!value->is_array() || value->get_array().size() > max_choices) {
    Body::refuse(name, fmt::format("expected an array of at most {} strings", max_choices));
  }
  std::size_t index = 0;
  for (const json::value& item : value->get_array()) {
    const std::string place = fmt::format("{}/{}", name, index++);
    if (!item.is_string() || item.get_string().size() > max_choice_bytes) {
      Body::refuse(place, fmt::format("expected a string of at most {} bytes", max_choice_bytes));
    }
    const std::string text(item.get_string());
    Body::require_name(place, text);
    if (const std::string expected = check(text); !expected.empty()) refuse_found(place, expected, text);
  }
  texts = to_text(*value);
}

void read_filters(Body& body, store::WebhookRow& webhook) {
  read_choices(body, "alert_kinds", webhook.alert_kinds, [](const std::string& text) {
    return alerts::kind_of(text) ? "" : fmt::format("expected one of {}", fmt::join(alerts::kind_names, ", "));
  });
  read_choices(body, "runs", webhook.runs, [](const std::string& text) {
    return std::string(valid_id(text, 'r') ? "" : "expected the id of a run");
  });
  read_choices(body, "labels", webhook.labels, [](const std::string& text) {
    return std::string(!text.empty() && text.front() != '=' ? "" : "expected NAME or NAME=VALUE");
  });
}

/// Reads the members that the body has into `webhook`, and checks the whole.
void read_webhook(Body& body, store::WebhookRow& webhook) {
  if (auto name = body.name_text("name", max_name_bytes)) webhook.name = std::move(*name);
  if (auto kind = body.text("kind", 20)) webhook.kind = std::move(*kind);
  if (auto url = body.text("url", max_url_bytes)) webhook.url = std::move(*url);
  if (auto page = body.text("page", max_url_bytes)) webhook.page = std::move(*page);
  if (auto secret = body.text("secret", max_secret_bytes)) webhook.secret = std::move(*secret);
  webhook.cleared = body.flag("cleared").value_or(webhook.cleared);
  webhook.enabled = body.flag("enabled").value_or(webhook.enabled);
  if (auto digest_at = body.text("digest_at", 5); digest_at && *digest_at != webhook.digest_at) {
    if (!digest_at->empty() && !webhooks::is_time_of_day(*digest_at)) {
      refuse_found("digest_at", "expected a time of day from 00:00 to 23:59, or \"\" for none", *digest_at);
    }
    webhook.digest_at = std::move(*digest_at);
    webhook.digest_ms = wall_time_ms();
  }
  read_filters(body, webhook);
  body.finish();
  if (webhook.name.empty()) Body::refuse("name", "expected a non-empty string");
  const auto& kinds = webhooks::kind_names;
  if (std::find(kinds.begin(), kinds.end(), webhook.kind) == kinds.end()) {
    refuse_found("kind", fmt::format("expected one of {}", fmt::join(kinds, ", ")), webhook.kind);
  }
  if (const auto address = webhooks::parse_address(webhook.url, webhook.kind); !address) {
    Body::refuse("url", address.error());
  }
  if (webhook.page.empty()) return;
  if (const auto page = webhooks::parse_address(webhook.page, ""); !page) Body::refuse("page", page.error());
  if (!webhook.page.ends_with('/')) webhook.page += '/';
}

void require_secret(const store::WebhookRow& webhook) {
  const auto visible = [](unsigned char c) { return c > 0x20 && c < 0x7f; };
  if (webhook.secret.empty()) return;
  if (webhook.secret.size() < min_secret_bytes || !std::all_of(webhook.secret.begin(), webhook.secret.end(), visible)) {
    Body::refuse("secret", fmt::format("expected at least {} visible ASCII characters without spaces, or \"\" for none",
                                       min_secret_bytes));
  }
}

/// The body of a PATCH. In a merge patch (RFC 7396), null removes page, secret, digest_at or a filter.
Body webhook_edit(const http::Request& request) {
  if (http::media_type_of(request.header("content-type")) != http::merge_patch_type) return Body(request);
  json::value patch = parse_body(request);
  if (!patch.is_object()) return Body(request);
  for (auto& [name, value] : patch.get_object()) {
    if (!value.is_null()) continue;
    if (name == "page" || name == "secret" || name == "digest_at") {
      value = "";
    } else if (name == "alert_kinds" || name == "runs" || name == "labels") {
      value = json::array();
    } else {
      Body::refuse(name, "cannot be removed");
    }
  }
  return Body(std::move(patch), "");
}

void wake_sender(Service& service) {
  if (service.webhooks != nullptr) service.webhooks->wake();
}

}  // namespace

http::Response list_webhooks(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  json::array items;
  for (const auto& webhook : store::list_webhooks(reader->database)) items.push_back(webhook_item(*reader, webhook));
  return page_response(request, std::move(items), std::nullopt);
}

http::Response create_webhook(Service& service, const http::Request& request) {
  const auto answer = [&] {
    Body body(request);
    store::WebhookRow webhook;
    const std::string made = make_secret();
    webhook.secret = made;
    read_webhook(body, webhook);
    if (webhook.kind != "json" && webhook.secret == made) webhook.secret.clear();  // chats check no signatures
    require_secret(webhook);
    webhook.id = make_id('w');
    webhook.created_by = request.actor;
    webhook.created_ms = wall_time_ms();
    const std::string path = "/api/v1/webhooks/" + webhook.id;
    access::audited_write(
        service.audit, request, 201,
        [&](store::Database& database) {
          if (store::list_webhooks(database).size() >= max_webhooks) {
            throw http::Problem(409, "too_many_webhooks",
                                fmt::format("found {} webhooks, the max: remove some first", max_webhooks));
          }
          store::add_webhook(database, webhook);
        },
        path);
    auto reader = service.store.reader();
    json::object item = webhook_item(*reader, webhook);
    item["secret"] = text_or_null(webhook.secret);
    http::Response response = json_response(item);
    response.status = 201;
    response.set("Location", path).set("Cache-Control", "no-store");
    return response;
  };
  // The secret is returned only once, even to a repeated request.
  return service.idempotency.once(request, answer, [](const std::string& body) {
    json::value item = parse_json(body).value();
    item.as_object()["secret"] = nullptr;
    return to_text(item);
  });
}

http::Response show_webhook(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  return resource_response(request, webhook_item(*reader, require_webhook(*reader, request)),
                           {"waiting", "dropped", "last"});
}

http::Response edit_webhook(Service& service, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("webhook"));
  auto reader = service.store.reader();
  store::WebhookRow webhook = require_webhook(*reader, request);
  require_match(request, webhook_state(webhook_item(*reader, webhook)));
  Body body = webhook_edit(request);
  read_webhook(body, webhook);
  require_secret(webhook);
  access::audited_write(service.audit, request, 200,
                        [&](store::Database& database) { store::replace_webhook(database, webhook); });
  wake_sender(service);
  return json_response(webhook_item(*reader, webhook));
}

http::Response delete_webhook(Service& service, const http::Request& request) {
  const auto one_at_a_time = service.edits.lock(request.parameter("webhook"));
  {
    auto reader = service.store.reader();
    const store::WebhookRow webhook = require_webhook(*reader, request);
    require_match(request, webhook_state(webhook_item(*reader, webhook)));
  }
  access::audited_write(service.audit, request, 204, [&](store::Database& database) {
    return store::remove_webhook(database, request.parameter("webhook"));
  });
  http::Response response;
  response.status = 204;
  return response;
}

http::Response test_webhook(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::WebhookRow webhook = require_webhook(*reader, request);
  const auto delivery = access::audited_write(service.audit, request, 202, [&](store::Database& database) {
    return webhooks::queue_test(database, webhook, wall_time_ms());
  });
  wake_sender(service);
  http::Response response = json_response(delivery_item(delivery));
  response.status = 202;
  return response;
}

http::Response list_deliveries(Service& service, const http::Request& request) {
  auto reader = service.store.reader();
  const store::WebhookRow webhook = require_webhook(*reader, request);
  const std::int64_t limit = page_limit(request);
  auto rows = store::list_deliveries(reader->database, webhook.number, read_cursor(request).first, limit + 1);
  auto next = end_page(rows, limit, [](const store::DeliveryRow& last) { return make_cursor(last.number, 0); });
  json::array items;
  for (const store::DeliveryRow& delivery : rows) items.push_back(delivery_item(delivery));
  return page_response(request, std::move(items), std::move(next));
}

}  // namespace babelring::api
